"""The study of finding 4: readings of windows, links and layout on the same loads."""

import pytest

import moeopt
from benchmarks.studies import relayout_windows as study
from tests.rooms.relayout import Instance


def test_a_row_is_the_excess_over_the_proven_optimum() -> None:
    """By the library's command, and each reading is another instance of the same loads."""
    instance = moeopt.generate(
        "relayout",
        machine="trimoe",
        model="deepseek-v2-lite",
        workload="trimoe-skew",
        batch=16,
        cold_cut="experts 0.7",
        layout_from="earlier steps",
        dimm_choice="in turn",
        windows="two",
    )
    assert isinstance(instance, Instance)
    row = study.measure("as it was", [instance], 60.0)
    assert (row.instances, row.proven) == (1, 1)
    expected = {r.key.method: r.excess for r in moeopt.gap([instance], list(study.POLICIES))}
    for policy in study.POLICIES:
        assert row.excess[policy] == pytest.approx([expected[policy]])
    none = 1 + row.excess["none"][0]
    assert row.gain["benefit-greedy"] == pytest.approx(
        [1 - (1 + row.excess["benefit-greedy"][0]) / none]
    )
    assert row.line.startswith("| as it was | 1 of 1 | ")
    made = [study.under(instance, settled) for settled in study.READINGS.values()]
    assert len({m.model_dump_json(exclude={"provenance"}) for m in made}) == len(study.READINGS)
    assert {tuple(e.tokens for e in m.experts) for m in made} == {
        tuple(e.tokens for e in instance.experts)
    }


def test_glm_is_not_counted_beside_qwen() -> None:
    """Six of the nine instances of small-batch are two models' at three sizes."""
    names = [instance.name for instance in study.instances_of(["small-batch"])]
    assert len(names) == 6
    assert not any(name.startswith("glm") for name in names)
