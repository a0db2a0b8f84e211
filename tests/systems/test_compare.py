"""`moeopt.compare`: rows, optima, refusals and options, on small comparisons."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.raising_cli import call
from tests.rooms.sim import Counts
from tests.rooms.systems import SystemComparison, on_threads_ns, system_names

SMALL = {"workload": "trimoe-skew", "batch": 12, "prompt": 6, "output": 4, "layers": 2}
MODEL = "deepseek-v2-lite"
FOUR = ("trimoe", "ktransformers-a100", "edge-gpu-ndp-6", "cxl-ndp")
LACKING = {
    "trimoe": {"cxl-ndp"},
    "ktransformers-a100": {"trimoe", "edge-gpu-ndp", "cxl-ndp", "monde"},
}


@pytest.fixture(
    scope="module",
    params=["trimoe", "cxl-ndp", *(pytest.param(one, marks=pytest.mark.slow) for one in FOUR[1:3])],
)
def found(request: pytest.FixtureRequest) -> SystemComparison:
    """Return all systems on each of the papers' machines, with optima of three steps."""
    return moeopt.compare(request.param, MODEL, **SMALL | {"output": 3})


def rows(found: SystemComparison) -> dict[str, Any]:
    return {row.system: row for row in found.rows}


def test_every_system_is_a_row(found: SystemComparison) -> None:
    """Those that the machine lacks a unit for say which."""
    assert [row.system for row in found.rows] == system_names()
    for row in found.rows:
        assert (row.run is None) == (row.reason is not None), row
        if row.reason is not None:
            assert row.reason.startswith(f"{found.machine} "), row.reason
    lacking = {row.system for row in found.rows if row.run is None}
    assert lacking == LACKING.get(found.machine, lacking)
    assert len(lacking) < len(found.rows)


def test_no_optimum_is_above_what_was_executed(found: SystemComparison) -> None:
    """In every cell, or over the run where something is decided once; oracles are bounds."""
    checked = 0
    for row in found.rows:
        best = row.optimum
        if best is None or best.oracle_ns is None:
            continue
        above = np.array(best.oracle_ns) - np.array(best.executed_ns)
        assert above.max() <= 0, row.system
        checked += len(above)
        cells = dict.fromkeys(best.layer, 0)
        for cell in row.run.cells:
            cells[cell.layer] += cell.experts_ns
        executed = dict.fromkeys(best.layer, 0)
        for layer, ns in zip(best.layer, best.executed_ns, strict=True):
            executed[layer] += ns
        assert executed == cells, row.system
        if best.achievable_ns is not None:
            assert (np.array(best.achievable_ns) >= best.oracle_ns).all(), row.system
    assert checked


def test_nothing_is_busier_than_the_clock(found: SystemComparison) -> None:
    for row in found.rows:
        for device, share in (row.run.busy if row.run else {}).items():
            assert 0 <= share <= 1, (row.system, device, share)


def test_a_step_is_the_sum_of_its_layers_and_what_is_outside(
    found: SystemComparison,
) -> None:
    """Layers begin where the last one ended, so that only the GPU's other work is beside them."""
    for row in found.rows:
        if row.run is not None:
            rest = row.run.step_ns - row.run.layer_ns.sum(axis=1)
            assert (rest > 0).all(), row.system
            assert (row.run.experts_ns <= row.run.layer_ns).all(), row.system


def test_json_has_the_documented_names(found: SystemComparison) -> None:
    made: Any = found.to_dict()
    assert {"machine", "model", "systems", "best_ms"} <= made.keys()
    for row in made["systems"]:
        assert {"system", "runs", "reason", "prefill_s", "decode_ms", "tokens_per_s"} <= row.keys()
        if row["runs"]:
            assert {"median", "p99"} <= row["decode_ms"].keys()
            assert {"gpu"} <= row["busy"].keys() <= {"gpu", "cpu", "ndp", "pcie", "dimms"}
            assert {"same_information_ms", "oracle_ms", "achievable_ms"} <= row["optimum"].keys()
            assert row["tokens_per_s"] == pytest.approx(12e3 / row["decode_ms"]["mean"])
        else:
            assert row["decode_ms"] is row["busy"] is row["optimum"] is None
    frame = found.to_frame()
    assert frame.system.tolist() == system_names()
    assert frame.loc[frame.runs, "decode_ms"].notna().all()


def only(system: str, machine: str = "trimoe", **given: object) -> Any:
    """Return the row of one system."""
    how: dict[str, Any] = SMALL | {"exact": "none"} | given
    [row] = moeopt.compare(machine, MODEL, systems=[system], **how).rows
    return row


@pytest.mark.parametrize("system", ["trimoe", "klotski", "ktransformers", "edge-gpu-ndp"])
def test_a_cache_on_the_host_is_no_faster(system: str) -> None:
    """With 512 requests of 4,096 tokens it is what a layer waits for."""
    long = {"batch": 512, "prompt": 0, "output": 8192, "layers": 1, "steps": 2}
    here = only(system, **long)
    there = only(system, kv_cache="host", **long)
    assert there.decode_ms > 1.5 * here.decode_ms
    assert there.run.busy["dimms"] <= 1
    assert there.run.busy["pcie"] > here.run.busy["pcie"]


def test_prompts_take_longer_with_their_tokens() -> None:
    """Prefill is None without prompts; larger chunks are fewer uploads."""
    assert only("klotski", prompt=0).run.prefill_ns is None
    short, long = (only("klotski", prompt=tokens).run.prefill_ns for tokens in (16, 256))
    assert short < long
    parts = [only("monde", prompt=64, ubatch=size).run.prefill_ns for size in (16, 512)]
    assert parts[0] > parts[1]


def test_more_memory_is_no_slower() -> None:
    """Klotski uploads whatever is not there."""
    few, many = (only("klotski", gpu_expert_gib=gib) for gib in (0.1, 1.5))
    assert few.run.gpu_bytes < many.run.gpu_bytes
    assert few.decode_ms > many.decode_ms
    with pytest.raises(InputError, match=r"gpu_expert_gib: must be at most .*, not 900"):
        only("klotski", gpu_expert_gib=900)


def test_a_system_for_single_requests_says_so() -> None:
    assert only("collaborative").notes == ("its paper serves 1 request at a time",)
    assert only("collaborative", batch=1).notes == ()


def test_a_copy_is_used_only_when_it_has_ended() -> None:
    """The same expert at every step: missed until its copy is there, and PCIe is never overfull."""
    row = only("collaborative", batch=1, prompt=0, output=16, steps=16)
    assert 0 < row.run.busy["pcie"] <= 1
    whole = only("collaborative", batch=1, prompt=0, output=16, steps=16, gpu_expert_gib=0)
    assert whole.run.busy["pcie"] == 0
    assert whole.run.gpu_bytes == 0


def test_deferral_is_for_single_requests() -> None:
    """KTransformers defers for one request and not for a batch (its 4.2; experts read twice)."""
    machine = "ktransformers-a100"
    alone = only("ktransformers", machine, batch=1)
    assert any("defer" in note for note in alone.notes)
    assert not any("defer" in note for note in only("ktransformers", machine).notes)


def test_skipped_experts_cost_no_time_and_more_of_the_score() -> None:
    """Beside as many deferred ones, with the published price of both (KTransformers 6.3)."""
    given: dict[str, Any] = SMALL | {"batch": 1, "prompt": 0, "exact": "none", "layers": 4}
    names = ["ktransformers", "ktransformers[affected=skipped]"]
    found = moeopt.compare("ktransformers-a100", "deepseek-v3", systems=names, **given)
    late, never = found.rows
    assert never.run.busy["cpu"] < late.run.busy["cpu"]
    assert never.mean_ms <= late.mean_ms
    assert late.notes[0].startswith("defers 3 of each token's 8 experts, for 0.1")
    assert never.notes[0] == "skips 3 of each token's 8 experts, for 6.65% of scores"
    small = moeopt.compare("ktransformers-a100", MODEL, systems=names[:1], **given).rows[0]
    assert small.notes[0].endswith("at a price that is not published")


def test_offline_profiles_are_there_before_the_prompts() -> None:
    """Nothing is fetched behind them; without prompts both are the same."""
    names = ("edge-gpu-ndp", "edge-gpu-ndp[prefetched_by=offline profile]")
    prompts, profile = (only(name, "edge-gpu-ndp-6") for name in names)
    assert profile.prefill_s < prompts.prefill_s
    assert profile.run.state.resident.sum() == prompts.run.state.resident.sum()
    alone = [only(name, "edge-gpu-ndp-6", prompt=0).mean_ms for name in names]
    assert alone[0] == alone[1]


def test_narrower_experts_on_the_box_are_faster() -> None:
    """On average two bits in place of three; a box that is too small for all widths is refused."""
    three, two = (only(f"cxl-ndp[average_bits={n}]", "cxl-ndp", batch=1) for n in (3, 2))
    assert two.mean_ms < three.mean_ms
    assert three.mean_ms == only("cxl-ndp", "cxl-ndp", batch=1).mean_ms
    given: dict[str, Any] = SMALL | {"exact": "none", "systems": ["cxl-ndp"]}
    [row] = moeopt.compare("cxl-ndp", "deepseek-v3", **given).rows
    assert row.reason is not None
    assert row.reason.startswith("memory: needs 1979 GiB on cxl0 of cxl-ndp for deepseek-v3 at")


def test_what_wraps_or_is_left_out_is_said() -> None:
    given: dict[str, Any] = SMALL | {"exact": "none", "systems": ["klotski"]}
    found = moeopt.compare("trimoe", MODEL, **given | {"output": 500, "steps": 3})
    assert "3 decode steps are executed for 500" in found.notes
    assert any("layers" in note for note in found.notes)


def test_words_that_are_no_options_are_named() -> None:
    with pytest.raises(InputError, match="exact: must be none or sample or all, not 'some'"):
        only("trimoe", exact="some")
    with pytest.raises(InputError, match="systems: trimoe: move_reads: must be one of no, yes"):
        only("trimoe[move_reads=maybe]")
    with pytest.raises(InputError, match="klotskj"):
        only("klotskj")
    with pytest.raises(InputError, match="one of the two"):
        moeopt.compare("trimoe", MODEL)
    with pytest.raises(InputError, match="layers: must be at most 26, not 27"):
        only("klotski", layers=27)


def test_pictures() -> None:
    found = moeopt.compare("trimoe", MODEL, systems=["trimoe", "klotski"], **SMALL)
    [axes] = found.plot().axes
    assert {label.get_text() for label in axes.get_yticklabels()} == {"trimoe", "klotski"}
    faulty = f"compare --machine trimoe --model {MODEL} --workload trimoe-skew --plot x.bmp"
    with pytest.raises(InputError, match=r"^--plot: x.bmp: the suffix must be one of .svg"):
        call(faulty.split())


def test_prompts_on_a_cpu_are_parts_on_its_threads() -> None:
    """As the problem `threads` has both of a layer's batches; without cores it is said."""
    tokens = np.zeros(64, dtype=np.int64)
    tokens[:10] = *[100] * 6, 40, 40, 9, 7
    counts = Counts("made", np.tile(tokens, (1, 26, 1)))
    world = only("ktransformers", "ktransformers-a100").run.state.world
    for rule in ("dynamic", "static-all-threads"):
        expected = 0
        for matrices in ("gate-up", "down"):
            instance = moeopt.generate(
                "threads",
                machine="ktransformers-a100",
                model=MODEL,
                counts=counts,
                matrices=matrices,
                grains="1,2,4,8,16,32,36,64",  # one part for each of a socket's threads, too
            )
            expected += moeopt.solve(instance, rule).objective
        together = world.combined_ns(-(-int(tokens.sum()) // 6))
        assert on_threads_ns(world, tokens, rule) == expected + together
    given: dict[str, Any] = SMALL | {"exact": "none", "systems": ["ktransformers"]}
    notes = [moeopt.compare(machine, MODEL, **given).notes for machine in FOUR[:2]]
    assert [any("states no cores" in note for note in of) for of in notes] == [True, False]
