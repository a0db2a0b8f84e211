"""TriMoE's cost model (Eq. 1-4) against numbers worked out by hand, DeepSeek-V2 on its machine.

One expert is 3 x 5,120 x 1,536 = 23,592,960 weights: 47,185,920 bytes in BF16, and as many
operations per token (a multiplication and an addition per weight).
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from moeopt.errors import InputError
from moeopt.problems.envelope import MAX_NUMBER
from moeopt.sim.cost import DEFAULT_QUANTUM_NS, ExpertCosts, expert_costs, to_quanta
from moeopt.sim.machine import Machine
from moeopt.sim.presets import get_machine, get_model, names

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
    return expert_costs(machine, get_model("deepseek-v2"), tokens, quantum_ns)


def machine_with(**changes: float) -> Machine:
    """Return TriMoE's machine with other numbers; ``gpu__hbm_gb_s`` stands for gpu.hbm_gb_s."""
    data = get_machine("trimoe").model_dump()
    for field, value in changes.items():
        *parents, last = field.split("__")
        target = data
        for parent in parents:
            target = target[parent]
        target[last] = value
    return Machine.model_validate(data)


def test_an_expert_of_deepseek_v2_has_47_megabytes() -> None:
    """Bytes and operations follow from the two sizes."""
    model = get_model("deepseek-v2")
    assert model.expert_bytes == 47_185_920
    assert model.flops_per_token == 47_185_920


def test_one_read_keeps_a_dimm_busy_as_long_as_its_share_of_the_bandwidth_says() -> None:
    """A striped expert comes from all DIMMs at once, a localized one through one channel."""
    assert costs([1]).dram_striped_ns == STRIPED
    assert costs([1]).dram_localized_ns == LOCALIZED


@pytest.mark.parametrize("tokens", [1, 2, 16, 100, 255, 256, 257, 512])
def test_gpu_computation_is_flat_while_utilization_grows_with_the_tokens(tokens: int) -> None:
    """Eq. 1: twice the tokens, twice the rate, the same 49 us, far below the PCIe transfer."""
    assert costs(tokens).gpu_hit_ns == GPU_FLAT


def test_gpu_computation_grows_with_the_tokens_beyond_the_last_point() -> None:
    """Eq. 1 at the cap of 60 %: 47,185,920 x 1,024 / (0.6 x 819.6e12) = 98,256.03 ns."""
    assert costs(1024).gpu_hit_ns == 98_257


def test_a_gpu_cannot_outrun_its_own_memory() -> None:
    """Eq. 1 on a GPU that computes at once: 47,185,920 B / 2,040 GB/s = 23,130.4 ns."""
    assert costs(1, machine=machine_with(gpu__peak_tflops=1e9)).gpu_hit_ns == 23_131


@pytest.mark.parametrize("tokens", [1, 64, 256, 512])
def test_a_miss_waits_for_the_slower_of_pcie_and_dram(tokens: int) -> None:
    """Eq. 2: PCIe is slower than a striped read and faster than a localized one."""
    assert costs(tokens).gpu_miss_striped_ns == PCIE
    assert costs(tokens).gpu_miss_localized_ns == LOCALIZED


@pytest.mark.parametrize(
    ("changes", "striped", "localized"),
    [
        # 10 x slower PCIe: 7,372,800 ns whatever the layout
        ({"pcie_gb_s": 6.4}, 10 * PCIE, 10 * PCIE),
        # PCIe faster than all else: the DRAM read shows
        ({"pcie_gb_s": 6400.0}, STRIPED, LOCALIZED),
        # PCIe and DRAM faster than all else: the computation shows
        ({"pcie_gb_s": 6400.0, "dram__striped_gb_s": 3072.0}, GPU_FLAT, LOCALIZED),
        # 100 x slower GPU: 4,912,801.2 ns
        ({"gpu__peak_tflops": 8.196}, 4_912_802, 4_912_802),
    ],
    ids=["pcie", "dram", "calculation striped", "calculation both"],
)
def test_a_miss_costs_the_longest_of_its_three_parts(
    changes: dict[str, float], striped: int, localized: int
) -> None:
    """Eq. 2 with each of calculation, PCIe transfer and DRAM read as the longest."""
    got = costs(256, machine=machine_with(**changes))
    assert got.gpu_miss_striped_ns == striped
    assert got.gpu_miss_localized_ns == localized


def test_a_hit_needs_neither_pcie_nor_host_memory() -> None:
    """Eq. 1 knows nothing of them."""
    slow = machine_with(pcie_gb_s=0.1, dram__striped_gb_s=0.1, dram__localized_gb_s=0.1)
    assert costs(256, machine=slow).gpu_hit_ns == GPU_FLAT


def test_the_cpu_waits_for_a_striped_read_up_to_66_tokens() -> None:
    """Eq. 3, striped: computation passes the read's 153,600 ns between 66 and 67 tokens."""
    # From 10 TFLOPS at 16 tokens to 40 at 256, straight in log-log, is 2.5 x sqrt(L) TFLOPS:
    # 47,185,920 x L / (2.5e12 x sqrt(L)) = 18,874.368 x sqrt(L) ns,
    # which is 153,336.1 ns for 66 tokens and 154,493.4 ns for 67.
    assert costs([1, 16, 66]).cpu_striped_ns.tolist() == [STRIPED] * 3
    # sqrt(100) = 10; at 256: 47,185,920 x 256 / 40e12 = 301,989.9
    assert costs([67, 100, 256]).cpu_striped_ns.tolist() == [154_494, 188_744, 301_990]


def test_the_cpu_waits_for_a_localized_read_up_to_1041_tokens() -> None:
    """Eq. 3, localized: at 40 TFLOPS a token takes 1,179.648 ns, 1,041.7 tokens the read's time."""
    assert costs([1, 256, 1041]).cpu_localized_ns.tolist() == [LOCALIZED] * 3
    assert costs([1042]).cpu_localized_ns == 1_229_194  # 1,229,193.2


def test_an_ndp_unit_computes_longer_than_it_reads_from_two_tokens_on() -> None:
    """Eq. 4: 307,200 ns for the weights, 184,320 ns for each token."""
    expected = [NDP_FLOOR, 2 * NDP_TOKEN, 3 * NDP_TOKEN, 100 * NDP_TOKEN]
    assert costs([1, 2, 3, 100]).ndp_ns.tolist() == expected


def test_few_tokens_on_a_localized_expert_cost_gpu_and_cpu_the_same() -> None:
    """Both wait for the one channel: the tie that greedy rules must break."""
    got = costs(np.arange(1, 1042))
    assert (got.gpu_miss_localized_ns == got.cpu_localized_ns).all()


@pytest.mark.parametrize("quantum_ns", [1, 5000])
@pytest.mark.parametrize("model", names("models"))
def test_no_path_gets_cheaper_with_more_tokens(model: str, quantum_ns: int) -> None:
    """Every path's cost is monotone in the tokens."""
    got = expert_costs(get_machine("trimoe"), get_model(model), np.arange(1, 3000), quantum_ns)
    for path in PER_TOKEN:
        assert (np.diff(getattr(got, path)) >= 0).all(), path


def test_the_default_quantum_rounds_up_to_whole_5_us() -> None:
    """The anchors at 5,000 ns: each the next multiple above."""
    assert DEFAULT_QUANTUM_NS == 5000
    got = costs([1, 2, 256], quantum_ns=5000)
    assert got.gpu_hit_ns.tolist() == [50_000] * 3
    assert got.gpu_miss_striped_ns.tolist() == [740_000] * 3
    assert got.gpu_miss_localized_ns.tolist() == [1_230_000] * 3
    assert got.cpu_striped_ns.tolist() == [155_000, 155_000, 305_000]
    assert got.cpu_localized_ns.tolist() == [1_230_000] * 3
    assert got.ndp_ns.tolist() == [310_000, 370_000, 47_190_000]  # 47,185,920
    assert (got.dram_striped_ns, got.dram_localized_ns) == (155_000, 1_230_000)


def test_rounding_happens_once_and_after_the_maximum() -> None:
    """A coarse quantum rounds the same exact costs as the finest one does."""
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
        costs(1, machine=machine_with(pcie_gb_s=1e-12))


def test_a_measured_table_goes_before_the_roofline() -> None:
    """CPU 100 us at 10 tokens, 300 us at 20: 200 us at 15, 500 us at 30; flat below."""
    points = [[10, 100_000.0], [20, 300_000.0]]
    table = {"model": "deepseek-v2", "device": "cpu", "points": points, "source": "by hand"}
    preset = get_machine("trimoe")
    measured = Machine.model_validate(preset.model_dump() | {"time_tables": [table]})
    model, tokens = get_model("deepseek-v2"), [1, 15, 20, 30]
    costs = expert_costs(measured, model, tokens, quantum_ns=1)
    striped_read = costs.dram_striped_ns
    assert costs.cpu_striped_ns.tolist() == [striped_read, 200_000, 300_000, 500_000]
    without = expert_costs(preset, model, tokens, quantum_ns=1)
    assert costs.gpu_hit_ns.tolist() == without.gpu_hit_ns.tolist()
    other = expert_costs(measured, get_model("glm-4.5-air"), tokens, quantum_ns=1)
    assert (
        other.cpu_striped_ns.tolist()
        == expert_costs(
            preset, get_model("glm-4.5-air"), tokens, quantum_ns=1
        ).cpu_striped_ns.tolist()
    )
