"""Plans of counts and of workloads: decided as well as of a trace, and silent on nothing."""

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from moeopt import InputError, Plan, get_machine
from tests.interop.test_imatrix import imatrix
from tests.planner.small_plans import plan_experts
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.planner import (
    COUNTS,
    WORKLOAD,
    Planned,
    Predicted,
    Request,
    drawn_parts,
    hand_over,
    loads_of,
    notes,
    page,
    predicted,
    routing_of,
)
from tests.rooms.sim import (
    SAMPLED,
    UNKNOWN,
    Counts,
    Trace,
    Workload,
    coverage,
    default_workload,
    find,
    get_model,
    routing_trace,
)
from tests.rooms.systems import loads_of_counts

MACHINE, MODEL = "rtx4090-7960x", "deepseek-v2-lite"
SMALL = {"steps": 20, "reserved_gib": 12.0, "time_limit_s": 600, "joint_time_s": 0}


@cache
def recorded() -> Trace:
    """Return a trace with skew, order and sequences, as a real one has."""
    model = get_model(MODEL)
    law = find("workloads", Workload, "esft-deepseek-v2-lite")
    layers = len(model.moe_layers)
    return routing_trace(law, model.routed_experts, model.top_k, layers, 1200, 5)


def part(counted: bool) -> Trace:
    """Return two of three tokens of it, which are counted, or the third ones."""
    whole = recorded()
    chosen = (np.arange(whole.tokens) % 3 > 0) == counted
    return replace(whole, topk_ids=whole.topk_ids[chosen], topk_weights=None, seq_len=None)


@cache
def counted() -> Counts:
    """Return the counts of two of three tokens."""
    return part(counted=True).step_counts(800, experts=64)


@cache
def small() -> Planned:
    """Return the plan of the counts."""
    return plan_experts(MACHINE, MODEL, counts=counted(), **SMALL)  # type: ignore[arg-type]


@cache
def by_default() -> Planned:
    """Return the plan for which nothing is known of the routing."""
    short = get_model(MODEL).model_copy(update={"layers": 6})
    return plan_experts(MACHINE, short, **SMALL | {"reserved_gib": 20.0})  # type: ignore[arg-type]


@pytest.mark.slow
def test_counts_predict_the_trace_they_were_taken_from() -> None:
    """At one token per step, on its other tokens: within 2 %, so much are counts enough for."""
    planned = small()
    rest = part(counted=False)
    asked = replace(planned.request, steps=400)
    plan = planned.chosen.plan
    real = predicted(asked, plan, loads_of(asked, rest))
    said = planned.comparisons[0].later
    assert said.mean_ms == pytest.approx(real.mean_ms, rel=0.02)
    _, at_random = (
        predicted(asked, other, loads_of(asked, rest))
        for other in (plan, plan.model_copy(update={"resident": _first_ones(plan)}))
    )
    assert real.mean_ms < 0.95 * at_random.mean_ms, "the counts say which experts are worth it"


def _first_ones(plan: Plan) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(range(len(row))) for row in plan.resident or ())


def test_the_page_says_what_counts_do_not() -> None:
    """One line; neither caches nor deferral nor hold-out are there."""
    planned = small()
    text, data = page(planned), planned.to_dict()
    assert text.splitlines()[3] == COUNTS
    assert "drawn from the counts" in text.splitlines()[1]
    assert "drawn anew" in text
    assert "held out" not in text
    assert (data["routing"], data["notes"]) == ("counts", [COUNTS])
    assert data["comparisons"][0]["held_out"] is None
    assert data["comparisons"][0]["drawn_anew"]["steps"] == 20
    assert set(planned.chosen.plan.cache_ways) == set(planned.chosen.plan.deferred) == {0}
    assert planned.candidates == 1, "neither was tried"
    told = (planned.placement.provenance or {})["trace"]
    assert told[SAMPLED]["unknown"] == UNKNOWN


def test_a_batch_says_that_its_tokens_share_no_experts() -> None:
    """Tokens that are drawn one by one use more experts together than real ones."""
    told = notes(counted(), 4, None)
    assert told[0] == COUNTS
    assert told[1].startswith("batch 4: ")


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"held_out": 0.3}, "held_out: needs a trace: a file of counts has no tokens in order"),
        ({"keep_repeats": True}, "keep_repeats: needs a trace"),
        ({"max_deferred": 2}, "max_deferred: needs a trace: counts have no scores"),
        ({"steps": 2**30}, "are too many to draw"),
    ],
)
def test_what_needs_a_trace_is_refused(changes: dict[str, object], reason: str) -> None:
    """Not left out in silence."""
    with pytest.raises(InputError, match=reason):
        plan_experts(MACHINE, MODEL, counts=counted(), **changes)  # type: ignore[arg-type]


def test_only_one_source_is_taken() -> None:
    """Trace, counts and workload exclude each other."""
    with pytest.raises(InputError, match="trace, workload: at most one"):
        routing_of(recorded(), None, "hdmoe-mixtral", get_model(MODEL))


@pytest.mark.parametrize("option", ["--counts", pytest.param("--trace", marks=pytest.mark.slow)])
def test_an_imatrix_makes_a_plan(
    option: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """From the command line, whichever option it is given by; the model counts layers from 1."""
    rows = counted().total()
    path = imatrix(tmp_path / "m.gguf", {n: row.tolist() for n, row in enumerate(rows, start=1)})
    options = f"--machine {MACHINE} --model {MODEL} --steps 2 --reserved-gib 12 {option} {path}"
    assert run(["plan", "--joint-time", "0", *options.split()]) == 0
    assert UNKNOWN in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("layer,expert,count\n0,0,5\n0,1,x\n", "line 3: count: must be an integer"),
        ("layer,expert,count\n0,0,5\n", "1 layers, 0 to 0; deepseek-v2-lite has 26 with experts"),
        ("model,layer,expert,count\na,0,0,5\nb,0,0,5\n", "choose with where"),
        ("", "holds no counts"),
    ],
)
def test_wrong_count_files_are_one_line(
    text: str, reason: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And exit code 2."""
    path = tmp_path / "counts.csv"
    path.write_text(text)
    options = ["--machine", MACHINE, "--model", MODEL, "--counts", str(path)]
    assert reason in refused_command(capsys, ["plan", *options])


def test_labels_of_a_csv_choose_its_rows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a table of several models; and without a table there is nothing to choose from."""
    rows = [f"a,{n},{e},{c}" for n, row in enumerate(counted().total()) for e, c in enumerate(row)]
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["model,layer,expert,count", *rows, "b,0,0,7"]))
    options = f"plan --machine {MACHINE} --model {MODEL} --steps 1 --reserved-gib 12".split()
    options += ["--joint-time", "0"]
    assert run([*options, "--counts", str(path), "--where", "model=a"]) == 0
    assert run([*options, "--where", "model=a"]) == 2
    assert "--where: chooses rows of a file of --counts" in capsys.readouterr().err


def test_without_anything_the_models_default_workload_is_planned_for() -> None:
    """Labelled with its source, and with the model that it was measured on."""
    made = by_default()
    _, says = default_workload(made.request.model)
    assert made.notes[0] == f"no trace: {says}"
    assert made.notes[1] == WORKLOAD
    assert made.comparisons[0].drawn
    assert set(made.chosen.plan.cache_ways) == {0}
    _, says = default_workload(get_model(MODEL))
    assert says.startswith("default workload esft-deepseek-v2-lite; source: ")
    _, says = default_workload(get_model("glm-4.5-air"))
    assert "measured on deepseek-v2-lite, not on glm-4.5-air; source: " in says
    assert default_workload(get_model("phi-3.5-moe"))[0].name == "hdmoe-mixtral"


def test_few_steps_of_a_workload_show_its_popularities() -> None:
    """Fifty tokens cover what those of the law do, while fifty in order seem far more skewed."""
    model, law = get_model(MODEL), find("workloads", Workload, "esft-deepseek-v2-lite")
    steps, _ = drawn_parts(law, model, 50, 0)
    in_order = replace(recorded(), topk_ids=recorded().topk_ids[:50])
    drawn, ordered, all_of_it = (
        coverage(trace.step_counts(trace.tokens, experts=64).total(), 0.25)[0]
        for trace in (steps, in_order, recorded())
    )
    assert drawn == pytest.approx(all_of_it, rel=0.05)
    assert ordered > 1.2 * all_of_it


def test_a_workloads_experts_are_handed_to_no_runtime(tmp_path: Path) -> None:
    """Which ones are hot is drawn at random; whole layers and flags are written."""
    lines = hand_over(by_default(), tmp_path)
    assert not (tmp_path / "residency-sglang.json").exists()
    assert (tmp_path / "residency-llama.cpp.txt").exists()
    assert any(line.startswith("sglang: nothing written: the workload's experts") for line in lines)


def test_a_slow_first_step_does_not_weigh_on_the_rate() -> None:
    """The rate is of the steps after the first: some until all copies have ended, then quick ones.

    The counts are those of one set of experts in every step, which PCIe copies in some steps.
    """
    model = get_model(MODEL)
    counts = np.zeros((51, 26, 64), dtype=np.int64)
    counts[:, :, :6] = 1
    asked = Request(machine=get_machine(MACHINE), model=model, trace=recorded())
    found = predicted(asked, Plan(cache_ways=(6,)), loads_of_counts(counts, model))
    assert found.first_ms > 3 * found.median_ms
    later_ms = found.step_ns / 1e6
    assert found.median_ms == later_ms[-1] == later_ms.min()
    slow = int(np.count_nonzero(later_ms > found.median_ms))
    assert 0 < slow < 50 / 2
    assert found.mean_ms == pytest.approx(later_ms.mean())
    assert found.tokens_per_s == pytest.approx(1e3 / found.mean_ms)


def test_the_page_says_what_stands_apart() -> None:
    """A cold first step."""
    planned = small()
    cold = Predicted(9, mean_ms=11.5, median_ms=7.0, p95_ms=7.6, tokens_per_s=87.0, first_ms=50.0)
    first = replace(planned.comparisons[0], later=cold)
    text = page(replace(planned, comparisons=(first, *planned.comparisons[1:])))
    assert "plan: first step, caches empty: 50.00 ms, not counted above" in text
    assert "caches empty" not in page(planned)
