"""TriMoE's cost model (Eq. 1-4) against numbers worked out by hand, DeepSeek-V2 on its machine.

One expert is 3 x 5,120 x 1,536 = 23,592,960 weights: 47,185,920 bytes in BF16, and as many
operations per token (a multiplication and an addition per weight).
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from moeopt import InputError, get_machine, set_machine
from tests.rooms.core import MAX_NUMBER
from tests.rooms.sim import (
    DEFAULT_QUANTUM_NS,
    ExpertCosts,
    Machine,
    get_model,
    step_costs,
    to_quanta,
)
from tests.rooms.sim import preset_names as names

PER_TOKEN = (
    "gpu_hit_ns",
    "gpu_miss_striped_ns",
    "gpu_miss_localized_ns",
    "cpu_striped_ns",
    "cpu_localized_ns",
    "ndp_ns",
)

PCIE = 737_280  # 47,185,920 B / 64 GB/s
STRIPED = 153_600  # 47,185,920 B / 307.2 GB/s
LOCALIZED = 1_228_800  # 47,185,920 B / 38.4 GB/s
NDP_FLOOR = 307_200  # 47,185,920 B / 153.6 GB/s
NDP_TOKEN = 184_320  # 47,185,920 operations / 256 GFLOPS
# 30 % of 819.6 TFLOPS at 256 tokens, in proportion below:
# 47,185,920 x 256 / (0.3 x 819.6e12) = 49,128.01 ns
GPU_FLAT = 49_129


def costs(
    tokens: int | list[int] | NDArray[np.int64], quantum_ns: int = 1, machine: Machine | None = None
) -> ExpertCosts:
    """Return the costs of one DeepSeek-V2 expert, on TriMoE's machine if no other is given."""
    machine = machine or get_machine("trimoe")
    return step_costs(machine, get_model("deepseek-v2")).experts(tokens, quantum_ns)


def machine_with(**changes: float) -> Machine:
    """Return TriMoE's machine with other numbers; ``gpu__gb_s`` stands for gpu.gb_s."""
    fields: dict[str, object] = {name.replace("__", "."): v for name, v in changes.items()}
    return set_machine(get_machine("trimoe"), fields)


def test_one_read_keeps_a_dimm_busy_as_long_as_its_share_of_the_bandwidth_says() -> None:
    """A striped expert comes from all DIMMs at once, a localized one through one channel."""
    assert costs([1]).dram_striped_ns == STRIPED
    assert costs([1]).dram_localized_ns == LOCALIZED


BY_HAND: list[tuple[dict[str, float], str, dict[int, int]]] = [
    # Eq. 1: while utilization grows with the tokens, twice of them take the same 49 us. At its cap
    # of 60 %: 47,185,920 x 1,024 / (0.6 x 819.6e12) = 98,256.03 ns.
    ({}, "gpu_hit", dict.fromkeys([1, 2, 16, 100, 255, 256, 257, 512], GPU_FLAT) | {1024: 98_257}),
    # a GPU that computes at once: 47,185,920 B / 2,040 GB/s = 23,130.4 ns; 1 % of the bandwidth
    ({"gpu__peak_tflops": 1e9}, "gpu_hit", {1: 23_131}),
    ({"gpu__reached": 0.01}, "gpu_hit", {1: 2_313_036}),
    # 49,128.01 ns of computation and 3 us of launches
    ({"gpu__kernel_us": 3.0}, "gpu_hit", {1: GPU_FLAT + 3_000}),
    # a hit needs neither PCIe nor host memory
    ({"pcie__gb_s": 0.1, "dram__gb_s": 0.1, "dram__one_gb_s": 0.1}, "gpu_hit",
     {256: GPU_FLAT}),
    # Eq. 2: PCIe is slower than a striped read and faster than a localized one
    ({}, "gpu_miss_striped", dict.fromkeys([1, 64, 256, 512], PCIE)),
    ({}, "gpu_miss_localized", dict.fromkeys([1, 64, 256, 512], LOCALIZED)),
    # 10 x slower PCIe: 7,372,800 ns whatever the layout
    ({"pcie__gb_s": 6.4}, "gpu_miss_striped", {256: 10 * PCIE}),
    ({"pcie__gb_s": 6.4}, "gpu_miss_localized", {256: 10 * PCIE}),
    # PCIe faster than all else: the DRAM read shows; with fast DRAM as well the computation
    ({"pcie__gb_s": 6400.0}, "gpu_miss_striped", {256: STRIPED}),
    ({"pcie__gb_s": 6400.0}, "gpu_miss_localized", {256: LOCALIZED}),
    ({"pcie__gb_s": 6400.0, "dram__gb_s": 3072.0}, "gpu_miss_striped", {256: GPU_FLAT}),
    # 100 x slower GPU: 4,912,801.2 ns
    ({"gpu__peak_tflops": 8.196}, "gpu_miss_striped", {256: 4_912_802}),
    ({"gpu__peak_tflops": 8.196}, "gpu_miss_localized", {256: 4_912_802}),
    ({"pcie__latency_us": 5.0}, "gpu_miss_striped", {1: PCIE + 5_000}),
    # Eq. 3, striped. From 10 TFLOPS at 16 tokens to 40 at 256, straight in log-log, is
    # 2.5 x sqrt(L) TFLOPS: 47,185,920 x L / (2.5e12 x sqrt(L)) = 18,874.368 x sqrt(L) ns, which is
    # 153,336.1 ns for 66 tokens, less than the read, and 154,493.4 ns for 67. sqrt(100) = 10; at
    # 256: 47,185,920 x 256 / 40e12 = 301,989.9.
    ({}, "cpu_striped", dict.fromkeys([1, 16, 66], STRIPED)
     | {67: 154_494, 100: 188_744, 256: 301_990}),
    # Localized: at 40 TFLOPS a token takes 1,179.648 ns, 1,041.7 tokens the read's time.
    ({}, "cpu_localized", dict.fromkeys([1, 256, 1041], LOCALIZED) | {1042: 1_229_194}),
    # all host reads at half the bandwidth; the CPU's kernels alone
    ({"dram__reached": 0.5}, "cpu_striped", {1: 2 * STRIPED}),
    ({"dram__reached": 0.5}, "gpu_miss_localized", {1: 2 * LOCALIZED}),
    ({"cpu__reached": 0.5}, "cpu_striped", {1: 2 * STRIPED}),
    ({"cpu__reached": 0.5}, "gpu_miss_localized", {1: LOCALIZED}),
    # Eq. 4: 307,200 ns for the weights, 184,320 ns for each token
    ({}, "ndp", {1: NDP_FLOOR, 2: 2 * NDP_TOKEN, 3: 3 * NDP_TOKEN, 100: 100 * NDP_TOKEN}),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "path", "expected"), BY_HAND)
def test_costs_worked_out_by_hand(
    changes: dict[str, float], path: str, expected: dict[int, int]
) -> None:
    """By number of tokens, each part of Eq. 1 to 4 where it decides."""
    got = costs([*expected], machine=machine_with(**changes))
    assert getattr(got, f"{path}_ns").tolist() == [*expected.values()]


def test_few_tokens_on_a_localized_expert_cost_gpu_and_cpu_the_same() -> None:
    """Both wait for the one channel: the tie that greedy rules must break."""
    got = costs(np.arange(1, 1042))
    assert (got.gpu_miss_localized_ns == got.cpu_localized_ns).all()


@pytest.mark.parametrize("quantum_ns", [1, 5000])
@pytest.mark.parametrize("model", names("models"))
def test_no_path_gets_cheaper_with_more_tokens(model: str, quantum_ns: int) -> None:
    """Every path's cost is monotone in the tokens."""
    got = step_costs(get_machine("trimoe"), get_model(model)).experts(
        np.arange(1, 3000), quantum_ns
    )
    for path in PER_TOKEN:
        assert (np.diff(getattr(got, path)) >= 0).all(), path


def test_rounding_happens_once_and_after_the_maximum() -> None:
    """A coarse quantum rounds the same exact costs as the finest one does."""
    assert DEFAULT_QUANTUM_NS == 5000
    assert (costs([1], 5000).dram_striped_ns, costs([1], 5000).dram_localized_ns) == (
        155_000,
        1_230_000,
    )
    tokens = np.arange(1, 600)
    fine, coarse = costs(tokens), costs(tokens, quantum_ns=5000)
    for path in PER_TOKEN:
        exact, rounded = getattr(fine, path), getattr(coarse, path)
        assert rounded.dtype == np.int64
        assert (rounded == -(-exact // 5000) * 5000).all(), path


@given(
    st.lists(st.floats(0, 1e11), min_size=1, max_size=20),
    st.sampled_from([1, 2, 7, 1000, 5000, 10**9]),
)
def test_rounding_goes_up_by_less_than_a_quantum(durations: list[float], quantum_ns: int) -> None:
    """Multiples of the quantum, below the duration by floating-point dust at most."""
    exact = np.array(durations)
    dust = 1e-9 * quantum_ns + 2 * np.spacing(exact)
    rounded = to_quanta(durations, quantum_ns)
    assert (rounded % quantum_ns == 0).all()
    assert (rounded >= exact - dust).all()
    assert (rounded - exact < quantum_ns).all()


@given(st.integers(0, 10**6), st.sampled_from([1, 3, 5000, 4096]))
def test_a_whole_number_of_quanta_is_left_alone(quanta: int, quantum_ns: int) -> None:
    """What needs no rounding stays, and floating-point dust on top of it is no reason either."""
    exact = float(quanta * quantum_ns)
    assert to_quanta(exact, quantum_ns) == exact
    assert to_quanta(np.nextafter(exact, np.inf), quantum_ns) == exact


def test_a_cost_beyond_all_instances_is_an_input_error() -> None:
    """A machine so slow that a cost leaves the integers is refused, not wrapped around."""
    assert to_quanta(float(MAX_NUMBER), 1) == MAX_NUMBER
    with pytest.raises(InputError, match=f"a cost of .* ns is above {MAX_NUMBER} ns"):
        to_quanta(MAX_NUMBER + 1.0, 1)
    with pytest.raises(InputError, match=r"machine, model: a cost of 4\.72e"):
        costs(1, machine=machine_with(pcie__gb_s=1e-12))


def test_a_measured_table_goes_before_the_roofline() -> None:
    """CPU 100 us at 10 tokens, 300 us at 20: 200 us at 15, 500 us at 30; flat below."""
    points = [[10, 100_000.0], [20, 300_000.0]]
    table = {"model": "deepseek-v2", "at": ("numa0", "cpu"), "points": points, "source": "by hand"}
    preset = get_machine("trimoe")
    measured = Machine.model_validate(preset.model_dump() | {"tables": [table]})
    model, tokens = get_model("deepseek-v2"), [1, 15, 20, 30]
    costs = step_costs(measured, model).experts(tokens, quantum_ns=1)
    striped_read = costs.dram_striped_ns
    assert costs.cpu_striped_ns.tolist() == [striped_read, 200_000, 300_000, 500_000]
    without = step_costs(preset, model).experts(tokens, quantum_ns=1)
    assert costs.gpu_hit_ns.tolist() == without.gpu_hit_ns.tolist()
    other = step_costs(measured, get_model("glm-4.5-air")).experts(tokens, quantum_ns=1)
    assert (
        other.cpu_striped_ns.tolist()
        == step_costs(preset, get_model("glm-4.5-air"))
        .experts(tokens, quantum_ns=1)
        .cpu_striped_ns.tolist()
    )


def test_one_path_costs_what_it_costs_among_all() -> None:
    """`path_cost` is `expert_costs` for machines that do not have all paths."""
    tokens = np.arange(1, 300)
    every = costs(tokens)
    for path in PER_TOKEN:
        one = step_costs(get_machine("trimoe"), get_model("deepseek-v2")).path_ns(
            path.removesuffix("_ns"), tokens, 1
        )
        assert (one == getattr(every, path)).all(), path


@pytest.mark.parametrize(
    ("machine", "path", "says"),
    [
        ("ktransformers-a100", "ndp", "machine ktransformers-a100: ndp: is missing; a cost on it"),
        ("cxl-ndp", "cpu_striped", "machine cxl-ndp: cpu: is missing; a cost on it is asked for"),
        ("ktransformers-4080", "cpu_localized", "4080: dram.one_gb_s: is missing; a read"),
        ("rtx4090-7960x", "gpu_miss_localized", "7960x: dram.one_gb_s: is missing; a read"),
    ],
)
def test_a_cost_on_a_missing_part_names_the_part(machine: str, path: str, says: str) -> None:
    """And the paths that need no such part still have their cost."""
    model = get_model("deepseek-v2")
    with pytest.raises(InputError) as caught:
        step_costs(get_machine(machine), model).path_ns(path, 1)  # type: ignore[arg-type]
    assert says in str(caught.value)
    with pytest.raises(InputError, match="is missing"):
        step_costs(get_machine(machine), model).experts(1)
    assert step_costs(get_machine(machine), model).path_ns("gpu_miss_striped", 1) > 0


def test_no_tokens_have_no_cost() -> None:
    """An expert without tokens is not run; asking is a mistake."""
    with pytest.raises(InputError, match="tokens: must be at least 1, not 0"):
        costs([1, 0])
    assert costs([]).ndp_ns.shape == (0,)


def test_narrower_weights_are_read_and_moved_faster() -> None:
    """3 of 16 bits: 3/16 of the bytes, on PCIe, in DRAM and inside a DIMM."""
    machine, full = get_machine("trimoe"), get_model("deepseek-v2")
    three = full.quantized(3)
    assert three.expert_bytes * 16 == full.expert_bytes * 3
    got = step_costs(machine, three).experts([1], 1)
    assert got.dram_striped_ns * 16 == STRIPED * 3
    assert got.gpu_miss_striped_ns * 16 == PCIE * 3
    assert got.ndp_ns == NDP_TOKEN  # 57,600 ns to read, as long as ever to compute
    assert step_costs(machine, three).path_ns("gpu_hit", 256, 1) == GPU_FLAT


def test_the_ndp_device_of_the_cxl_paper_speeds_up_with_the_width() -> None:
    """C5: latency cuts of about 5 at 3 bits and 8 at 2, 16/3 and 16/2 by the bytes alone."""
    machine, model = get_machine("cxl-ndp"), get_model("mixtral-8x7b")

    def ndp_ns(bits: float) -> float:
        return float(step_costs(machine, model.quantized(bits)).path_ns("ndp", 1, 1))

    # 352,321,536 B / 512 GB/s = 688,128 ns at 16 bits
    assert ndp_ns(16) == 688_128
    assert ndp_ns(16) / ndp_ns(3) == pytest.approx(16 / 3)
    assert ndp_ns(16) / ndp_ns(2) == pytest.approx(8)
    assert ndp_ns(16) / ndp_ns(3) == pytest.approx(5, rel=0.07)


def test_one_token_keeps_an_edge_dimm_as_busy_computing_as_reading() -> None:
    """Table I: 64 multipliers against 102.4 GB/s; 9,437,184 B of Qwen3-30B's expert: 92.16 us."""
    machine, model = get_machine("edge-gpu-ndp-6"), get_model("qwen3-30b-a3b")
    assert step_costs(machine, model).path_ns("ndp", [1, 2], 1).tolist() == [92_160, 184_320]


def test_the_cpu_of_ktransformers_is_bound_by_its_two_memories() -> None:
    """88,080,384 B / (440 x 0.77 GB/s) = 259,977.5 ns, AVX-512 and AMX alike; GPU fetch 2.75 ms."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    assert step_costs(machine, model).path_ns("cpu_striped", [1, 4, 5], 1).tolist() == [259_978] * 3
    # at 400 tokens AMX computes: 88,080,384 x 400 / 42.6e12 = 827,045.9 ns
    assert step_costs(machine, model).path_ns("cpu_striped", 400, 1) == 827_046
    assert step_costs(machine, model).path_ns("gpu_miss_striped", 1, 1) == 2_752_512
    # at 5 tokens computation alone: AMX 13.3125 TFLOPS, at 4 AVX-512 12
    alone = step_costs(machine, model).computation_s("cpu", [4, 5]) * 1e12
    assert alone == pytest.approx([88_080_384 * 4 / 12, 88_080_384 * 5 / 13.3125])


def test_a_numa_oblivious_program_loses_a_quarter() -> None:
    """Interleaved 318.8 instead of 440 GB/s: 1.38 times as long (K10's CPU part alone)."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    times = [
        float(step_costs(machine, model, numa=numa).path_ns("cpu_striped", 1, 1))
        for numa in ("interleaved", "tensor-parallel")
    ]
    assert times[0] / times[1] == pytest.approx(1.38, abs=0.005)


def test_the_collaborative_machine_costs_what_its_table_says() -> None:
    """Table III, halved: it times the two experts of a layer (Mixtral; Phi-3.5-MoE below)."""
    machine = get_machine("rtx4090-7960x")
    for name, gpu, cpu, fetch, one_thread in (
        ("mixtral-8x7b", 125_000, 3_670_000, 14_010_000, 22_060_000),
        ("phi-3.5-moe", 55_000, 1_680_000, 6_130_000, 11_365_000),
    ):
        model = get_model(name)
        assert step_costs(machine, model).path_ns("gpu_hit", 1, 1) == gpu
        assert step_costs(machine, model).path_ns("cpu_striped", 1, 1) == cpu
        assert step_costs(machine, model).path_ns("gpu_miss_striped", 1, 1) == fetch
        assert step_costs(machine, model, threads=1).path_ns("cpu_striped", 1, 1) == one_thread


def test_without_a_table_the_collaborative_machine_is_near_its_own_tables() -> None:
    """Mixtral under another name: roofline and measurement within 1 %."""
    machine, model = get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")
    other = model.model_copy(update={"name": "mixtral by another name"})
    for path in ("cpu_striped", "gpu_miss_striped"):
        measured, roofline = (
            float(step_costs(machine, shape).path_ns(path, 1, 1))  # type: ignore[arg-type]
            for shape in (model, other)
        )
        assert roofline == pytest.approx(measured, rel=0.01)


def test_a_table_is_for_the_width_at_which_it_was_measured() -> None:
    """Mixtral's tables are BF16: at 4 bits the roofline counts, or a table of 4 bits."""
    machine, model = get_machine("rtx4090-7960x"), get_model("mixtral-8x7b")
    four = model.quantized(4)
    assert step_costs(machine, four).transfer_s() == pytest.approx(352_321_536 / 4 / 25.2e9)
    assert step_costs(machine, model.quantized(16)).transfer_s() == pytest.approx(14.01e-3)
    table = {
        "model": model.name,
        "at": ("gpu0", "numa0"),
        "points": ((1, 7.0), (2, 7.0)),
        "source": "by hand",
        "bits_per_weight": 4.0,
    }
    data = machine.model_dump()
    data["tables"] = [*data["tables"], table]
    both = Machine.model_validate(data)
    assert step_costs(both, four).transfer_s() == pytest.approx(7e-9)
    assert step_costs(both, model).transfer_s() == pytest.approx(14.01e-3)


def test_dimm_link_moves_an_expert_in_its_own_time() -> None:
    """TriMoE 4.3: 47,185,920 B / 25 GB/s = 1.887 ms."""
    machine = get_machine("trimoe")
    seconds = step_costs(machine, get_model("deepseek-v2")).transfer_s(machine.dimm_link)
    assert seconds == pytest.approx(1.8874368e-3)
