"""Fitting: known parameters are found again, and real traces are met within stated errors."""

import json
from pathlib import Path

import numpy as np
import pytest

from benchmarks.traces.__main__ import run
from benchmarks.traces.fitting import (
    Fit,
    Shape,
    Targets,
    bisect,
    compare,
    fit_counts,
    fit_trace,
    search,
)
from moeopt import InputError, load_counts, load_trace
from tests.real_traces import real_trace_file
from tests.refusals import refused
from tests.rooms.sim import (
    UNKNOWN,
    Recall,
    Routing,
    Sequences,
    Topic,
    Trace,
    Workload,
    find,
    routing_trace,
)
from tests.sim.small_traces import routing_of

KNOWN = Workload(
    name="known",
    skew=4.0,
    drift=0.0,
    source="made up for a test",
    recall=Recall(probability=0.5, strength=0.6, decay=2.0),
    topic=Topic(share=0.15, phase_similarity=0.4),
    sequences=Sequences(tokens=60, spread=0.3, decode_share=0.5),
    affinity=0.6,
)


@pytest.fixture(scope="module")
def refitted() -> Fit:
    """Return the fit to a trace whose law is known."""
    return fit_trace(routing_trace(KNOWN, 16, 2, 3, 3000, seed=9), name="again", evaluations=25)


def errors(fit: Fit) -> dict[str, float]:
    """Return the error of each figure."""
    return {row.figure: row.error for row in fit.rows}


@pytest.mark.slow
def test_a_known_law_is_met(refitted: Fit) -> None:
    """All figures of a trace that such a workload made."""
    found = errors(refitted)
    skew = next(row for row in refitted.rows if row.figure.startswith("skew"))
    assert abs(skew.error) < 0.1 * skew.real
    assert abs(found["tokens reusing an expert"]) < 0.03
    assert abs(found["experts reused"]) < 0.03
    assert abs(found["share of the coldest 70 %"]) < 0.03
    assert abs(found["affinity of main experts, next layer"]) < 0.05
    assert abs(found["prefill/decode cosine"]) < 0.04
    assert found["mean |error| of the LRU curve"] < 0.02


def test_known_sequences_and_affinity_are_found(refitted: Fit) -> None:
    """Those parameters that one figure tells."""
    made = refitted.workload
    assert made.sequences.tokens == pytest.approx(60, abs=10)
    assert made.sequences.spread == pytest.approx(0.3, abs=0.1)
    assert made.sequences.decode_share == pytest.approx(0.5, abs=0.02)
    assert made.affinity == pytest.approx(0.6, abs=0.1)
    assert made.recall.probability * made.recall.strength == pytest.approx(0.3, abs=0.1)


def test_the_same_seed_gives_the_same_workload() -> None:
    """A short search, twice; and once with another seed."""
    trace = routing_trace(KNOWN, 8, 2, 2, 400, seed=9)
    first, again, other = (fit_trace(trace, seed=seed, evaluations=6) for seed in (1, 1, 2))
    assert first == again
    assert first.workload != other.workload


def test_a_trace_in_one_sequence_has_no_topic() -> None:
    """There is nothing to tell one from popularity; the workload can still be drawn."""
    trace = routing_trace(KNOWN.model_copy(update={"sequences": None}), 8, 2, 2, 300, seed=9)
    plain = Trace(name="one", topk_ids=trace.topk_ids)
    made = fit_trace(plain, evaluations=4).workload
    assert (made.topic, made.sequences) == (None, None)
    assert made.source == "fitted to one"
    assert Workload.model_validate(made.facts()) == made


def test_experts_that_are_never_used_stay_cold() -> None:
    """Eight experts of which a trace uses three."""
    ids = np.random.default_rng(0).integers(0, 3, size=(2000, 1, 1))
    fit = fit_trace(Trace(name="three", topk_ids=ids), experts=8, evaluations=25)
    law = fit.workload.popularity(8, 1)[0]
    assert law[2] - law[3] > 3
    skew = next(row for row in fit.rows if row.figure.startswith("skew"))
    assert skew.synthetic == pytest.approx(8 / 3, rel=0.15)


def test_a_known_phase_similarity_is_found() -> None:
    """Of a strong topic, of which decode keeps a known part."""
    topic = Topic(share=0.7, phase_similarity=0.6)
    plain = {"recall": None, "affinity": None, "topic": topic}
    made, size = KNOWN.model_copy(update=plain), Shape(16, 2, 3, 4000)
    goal = Targets.of(size.draw(made, seed=4), with_affinity=False).phase_similarity
    start = made.model_copy(update={"topic": Topic(share=0.7)})
    found = search(start, Targets(phase_similarity=goal), size, seed=1, evaluations=2)
    assert found.topic.phase_similarity == pytest.approx(0.6, abs=0.1)


def test_bisection_meets_a_rising_function_or_its_end() -> None:
    """To the width of the range over 4096."""
    assert bisect(lambda x: x * x, 2.0, 0, 4) == pytest.approx(2**0.5, abs=1e-3)
    assert bisect(lambda x: x, 9.0, 0, 4) == pytest.approx(4, abs=1e-3)
    assert bisect(lambda x: x, -9.0, 0, 4) == pytest.approx(0, abs=1e-3)


def test_the_comparison_lists_what_both_know() -> None:
    """Undefined figures are left out; the curve's error is over all common capacities."""
    real = Targets(skew=2.0, lru={1: 0.1, 2: 0.5})
    made = Targets(skew=2.5, cold_70=0.4, lru={1: 0.2, 2: 0.5, 3: 1.0})
    rows = {row.figure: row.error for row in compare(real, made, [2])}
    assert rows == {
        "skew (largest / mean load)": 0.5,
        "LRU hit rate, 2 cached": 0.0,
        "mean |error| of the LRU curve": pytest.approx(0.05),
    }
    one = Targets.of(routing_of([[0], [1]]))
    assert (one.reuse_any, one.phase_similarity, one.affinity) == (0.0, None, None)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"seed": -1}, "seed: must not be negative, not -1"),
        ({"evaluations": 0}, "evaluations: must be at least 1, not 0"),
        ({"experts": 2}, "experts: must be above the trace's expert 2, not 2"),
    ],
)
def test_unusable_requests_are_refused(changed: dict[str, int], message: str) -> None:
    """One line that names the field."""
    trace = Trace(name="t", topk_ids=np.arange(300).reshape(100, 1, 3) % 3)
    assert refused(fit_trace, trace, **changed) == message


def test_too_short_a_trace_is_refused() -> None:
    """It says how many tokens are needed."""
    with pytest.raises(InputError, match="a fit needs 64 tokens, this trace has 10"):
        fit_trace(Trace(name="t", topk_ids=np.zeros((10, 1, 1), dtype=int)))


@pytest.mark.parametrize("layers", [13, pytest.param(99, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("file", "preset"),
    [
        ("esft_deepseek_v2_lite/law.npz", "esft-deepseek-v2-lite"),
        ("hdmoe_mixtral_8x7b/writing.npz", "hdmoe-mixtral"),
    ],
)
def test_fitted_presets_behave_like_the_trace_they_are_fitted_to(
    file: str, preset: str, layers: int
) -> None:
    """Skew within 10 %, reuse within .03, the LRU curve within .03 on the mean; of some layers."""
    ids = load_trace(real_trace_file(file)).topk_ids
    real = Routing.of(Trace(name=file, topk_ids=ids[:, :: max(1, ids.shape[1] // layers)]))
    workload = find("workloads", Workload, preset)
    made = routing_trace(workload, real.experts, real.top_k, real.layers, real.tokens, seed=77)
    goal = Targets.of(real, with_affinity=False)
    got = Targets.of(Routing.of(made, real.experts), with_affinity=False)
    assert goal.skew is not None
    assert got.skew == pytest.approx(goal.skew, rel=0.1)
    for key in ("cold_70", "reuse_any", "reuse_all", "reuse_each"):
        assert getattr(got, key) == pytest.approx(getattr(goal, key), abs=0.03), key
    assert goal.lru_error(got) < 0.03


def test_a_preset_fitted_to_counts_has_their_skew() -> None:
    """OLMoE's, which is fitted again from the public counts: the same parameters."""
    file = real_trace_file("olmoe_allenai/expert_counts.csv")
    counts = load_counts(file, where={"model": "olmoe", "domain": "tulu"})
    again = fit_counts(counts, top_k=8)
    assert all(row.error == pytest.approx(0, abs=0.03 * row.real) for row in again.rows)
    preset = find("workloads", Workload, "olmoe-1b-7b")
    other = {"name", "source"}
    assert again.workload.model_dump(exclude=other) == preset.model_dump(exclude=other)


def test_the_popularity_of_counts_is_fitted() -> None:
    """Counts of a law that is known: skew within a tenth, and no more than popularity is fitted."""
    law = Workload(name="known", skew=4.0, drift=0.0, source="made up for a test")
    known = routing_trace(law, 32, 4, 3, 4000, 9).step_counts(4000, experts=32)
    fit = fit_counts(known, top_k=4, name="again")
    errors = {row.figure: row.error / row.real for row in fit.rows}
    assert set(errors) == {"skew (largest / mean load)", "share of the coldest 70 %"}
    assert all(abs(error) < 0.1 for error in errors.values())
    assert set(fit.workload.facts()) == {
        *("name", "skew", "drift", "source", "shape", "layer_scale")
    }
    assert UNKNOWN in fit.workload.source


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return a small trace's file: 200 tokens, two layers, 8 experts, top-2, two sequences."""
    made = routing_trace(KNOWN, 8, 2, 2, 200, seed=9)
    np.savez(tmp_path / "small.npz", topk_ids=made.topk_ids, seq_len=np.array([150, 50]))
    return tmp_path / "small.npz"


def test_the_command_prints_a_table_and_saves_a_workload(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The saved file is one that `generate --workload` takes."""
    out = tmp_path / "made.json"
    assert run(["fit", str(file), "--out", str(out), "--evaluations", "5"]) == 0
    text = capsys.readouterr().out
    for word in ("real", "synthetic", "skew (largest / mean load)", "LRU hit rate, 4 cached"):
        assert word in text
    saved = find("workloads", Workload, out)
    assert saved.name == "made"
    assert saved.source.endswith("small.npz")
    assert run(["fit", str(file), "--evaluations", "5", "--name", "made", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert Workload.model_validate(data["workload"]) == saved
    assert data["figures"][0]["figure"] == "skew (largest / mean load)"


def test_the_command_takes_counts(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With the top-k, which counts do not say; what does not go together is one line."""
    counts, out = tmp_path / "counts.csv", tmp_path / "w.json"
    counts.write_text("".join(f"0,{expert},{500 - 6 * expert}\n" for expert in range(64)))
    assert run(["fit", str(counts), "--top-k", "6", "--out", str(out)]) == 0
    assert Workload.model_validate_json(out.read_text()).recall is None
    capsys.readouterr()
    absent = str(tmp_path / "absent" / "x.json")
    for words, says in (
        ([str(counts)], "--top-k: is missing"),
        ([str(counts), "--top-k", "64"], "none uses it twice"),
        ([str(file), "--top-k", "2"], "--top-k: is for counts"),
        ([str(file), "--out", absent], "absent is not a folder"),
    ):
        assert run(["fit", *words]) == 2
        told = capsys.readouterr().err
        assert says in told
        assert told.count("\n") == 1
