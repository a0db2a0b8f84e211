"""llama.cpp's resident experts: what the fork reads of a profile."""

from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.exporters.placements import EXPERTS, LAYERS, instance, plan, random_plan, sets, shape


def resident(text: str, slots: int) -> dict[int, set[int]]:
    """Return the experts of each layer that the fork copies to the GPU, by its description.

    It counts the experts of lines whose position is not negative, and takes the `slots` most
    frequent of each layer, the lower number where two are equal. Lines are at most 4095 long.
    """
    counts: dict[int, dict[int, int]] = {}
    for line in text.splitlines():
        assert len(line) < 4095
        pos, layer, *ids = map(int, line.split(","))
        if pos >= 0:
            for expert in ids:
                row = counts.setdefault(layer, {})
                row[expert] = row.get(expert, 0) + 1
    return {
        layer: set(sorted(row, key=lambda expert: (-row[expert], expert))[:slots])
        for layer, row in counts.items()
    }


def words(exported: Any) -> list[str]:
    """Return the flags for a file called p.csv."""
    line: str = exported.flags(Path("p.csv"))
    return line.split()


@pytest.mark.parametrize("dense", [(), (0,), (1, 3)])
@pytest.mark.parametrize("slots", [1, 3])
def test_the_profile_leaves_no_choice(dense: tuple[int, ...], slots: int) -> None:
    """Equal counts are taken as they are, whichever experts they are."""
    given = instance(0, slots=LAYERS * EXPERTS)
    gpu = [[(layer + step) % EXPERTS for step in range(slots)] for layer in range(LAYERS)]
    exported = moeopt.export(plan(given, gpu), given, to="llama.cpp-profile", model=shape(dense))
    assert exported.loss is None
    assert words(exported) == [
        "-ngl", "999", "--cpu-moe", "--moe-cache-profile", "p.csv", "--moe-cache-slots", str(slots),
    ]  # fmt: skip
    numbers = [layer for layer in range(LAYERS + len(dense)) if layer not in dense]
    found = resident(exported.text, slots)
    assert found == dict(zip(numbers, map(set, sets(gpu)), strict=True))


@pytest.mark.parametrize("seed", range(3))
def test_other_plans_become_the_best_of_equal_counts(seed: int) -> None:
    """As the solver finds it with that restriction; the loss is the checker's."""
    given = instance(seed, slots=9)
    solution = random_plan(given, seed)
    assert len(set(map(len, solution.gpu))) > 1
    exported = moeopt.export(solution, given, to="llama.cpp-profile", model=shape(()))
    assert exported.loss is not None
    fields = given.model_dump() | {"restriction": "equal-counts"}
    best = moeopt.solve(type(given).model_validate(fields))
    assert exported.loss.exported == best.objective
    slots = exported.notes["slots"]
    found = resident(exported.text, slots) if slots else {}
    again = plan(given, [sorted(found.get(layer, ())) for layer in range(LAYERS)])
    assert moeopt.check(given, again).objective == best.objective


def test_all_and_nothing_need_no_profile() -> None:
    """All experts on the GPU, or all off it."""
    given = instance(0, slots=LAYERS * EXPERTS)
    for row, flags in ((range(EXPERTS), "-ngl 999"), ((), "-ngl 999 --cpu-moe")):
        exported = moeopt.export(
            plan(given, [row] * LAYERS), given, to="llama.cpp-profile", model=shape()
        )
        assert words(exported) == flags.split()


def test_models_whose_graph_has_no_cache_are_said() -> None:
    """By class; deepseek2 has one."""
    given = instance(0)
    for name, warned in (("DeepseekV2ForCausalLM", 0), ("Qwen3MoeForCausalLM", 1), (None, 1)):
        model = shape(model_class=name)
        found = moeopt.export(random_plan(given, 0), given, to="llama.cpp-profile", model=model)
        assert len(found.warnings) == warned
