"""Machines and their curves: what they compute, and what makes them invalid."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from moeopt import get_machine
from tests.refusals import refused
from tests.rooms.core import input_error
from tests.rooms.sim import Cpu, Curve, Machine, Numa, TimeTable, get_model

RISING = Curve(scale="linear", points=((0, 0.0), (256, 0.3), (512, 0.6)))
LOG = Curve(scale="log-log", points=((16, 10.0), (256, 40.0)))


def fault(model: type[Any], data: Any) -> str:
    """Return the one line that says what is wrong with the data of a machine or curve."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(data)
    return str(input_error(caught.value))


def test_a_linear_curve_is_straight_between_points() -> None:
    """A quarter of the way in tokens is a quarter of the way in value."""
    assert RISING([64, 128, 256, 384]) == pytest.approx([0.075, 0.15, 0.3, 0.45])


def test_a_log_log_curve_is_straight_in_the_logarithms() -> None:
    """Halfway between 16 and 256 in the logarithm is 64, between 10 and 40 it is 20."""
    assert LOG([16, 64, 256]) == pytest.approx([10, 20, 40])


def test_a_curve_is_flat_outside_its_points() -> None:
    """Nothing is extrapolated."""
    assert LOG([1, 15, 257, 10**6]) == pytest.approx([10, 10, 40, 40])
    assert RISING([512, 10**6]) == pytest.approx([0.6, 0.6])


@given(st.lists(st.integers(1, 10**6), min_size=1, max_size=30))
def test_a_curve_gives_each_token_count_what_it_gives_it_alone(tokens: list[int]) -> None:
    """An array of counts is worked on entry by entry, and every rate is above zero."""
    for curve in (RISING, LOG):
        together = curve(np.array(tokens))
        assert together.tolist() == [float(curve(count)) for count in tokens]
        assert (together > 0).all()


@pytest.mark.parametrize(
    ("scale", "points", "says"),
    [
        ("linear", [[1, 1.0], [1, 2.0]], "points[1][0]: must be above the tokens of the point"),
        ("linear", [], "points: tuple should have at least 1 item"),
        ("linear", [[-1, 1.0]], "points[0][0]: must be at least 0.0, not -1"),
        ("linear", [[1, float("inf")]], "points[0][1]: "),
        ("linear", [[0, 0.0]], "points[0][1]: must be above 0, except at 0 tokens"),
        ("linear", [[0, 0.0], [4, 0.0], [8, 1.0]], "points[1][1]: must be above 0"),
        ("linear", [[1, 0.0], [8, 1.0]], "points[0][1]: must be above 0"),
        ("log-log", [[0, 1.0], [8, 1.0]], "points[0][0]: must be above 0 on log-log axes"),
        ("log-log", [[1, 0.0], [8, 1.0]], "points[0][1]: must be above 0"),
        ("cubic", [[1, 1.0]], "scale: must be 'linear' or 'log-log', not \"cubic\""),
    ],
)
def test_a_curve_that_gives_no_rate_is_refused(scale: str, points: Any, says: str) -> None:
    """Falling tokens, negative or infinite values, and a rate of zero at any token count."""
    assert fault(Curve, {"scale": scale, "points": points}).startswith(says)


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("pcie_gb_s", 0, "pcie_gb_s: must be more than 0.0, not 0"),
        ("pcie_gb_s", float("inf"), "pcie_gb_s: "),
        ("pcie_gb_s", "64", 'pcie_gb_s: input should be a valid number, not "64"'),
        ("pcie_mb_s", 64.0, "pcie_mb_s: is not a known key"),
        ("dram", {"dimms": 2.0, "striped_gb_s": 1, "localized_gb_s": 1}, "dram.dimms: must be an"),
        ("ndp", {"gflops": 1.0}, "ndp.internal_gb_s: is missing"),
        ("sources", {"pcie_gb_s": 5}, "sources.pcie_gb_s: must be a string, not 5"),
    ],
)
def test_a_machine_with_an_impossible_number_is_refused(field: str, value: Any, says: str) -> None:
    """Zero, negative, infinite and textual rates, unknown and missing keys."""
    data = get_machine("trimoe").model_dump() | {field: value}
    assert fault(Machine, data).startswith(says)


def test_a_whole_number_is_a_rate_too() -> None:
    """64 in a file means 64.0."""
    data = get_machine("trimoe").model_dump() | {"pcie_gb_s": 64}
    assert Machine.model_validate(data) == get_machine("trimoe")


def a_machine(name: str, **changes: Any) -> dict[str, Any]:
    """Return a preset's data with parts merged in; None takes a part out."""
    data: dict[str, Any] = get_machine(name).model_dump()
    for part, value in changes.items():
        data[part] = data[part] | value if isinstance(value, dict) else value
    return data


def test_avx512_computes_up_to_four_tokens_and_amx_above() -> None:
    """KTransformers 3.2: the crossover itself belongs to AVX-512."""
    cpu = get_machine("ktransformers-a100").require_cpu()
    # AMX fills 5, 8 and 16 of a tile's 16 rows at 42.6 TFLOPS
    expected = [12.0, 12.0, 42.6 * 5 / 16, 21.3, 42.6, 42.6]
    assert cpu.rate_tflops([1, 4, 5, 8, 16, 512]) == pytest.approx(expected)


def test_the_crossover_is_where_the_faster_kernel_changes() -> None:
    """AVX-512's assumed rate lies between AMX's at four tokens and at five."""
    cpu = get_machine("ktransformers-a100").require_cpu()
    few = cpu.few_token_kernels[0]
    assert cpu.tflops(few.max_tokens) < few.tflops(few.max_tokens)
    assert cpu.tflops(few.max_tokens + 1) > few.tflops(few.max_tokens + 1)


def test_of_several_kernels_the_first_that_reaches_is_used() -> None:
    """Three kernels: up to 2, up to 8, and the main one."""
    flat = [{"scale": "linear", "points": ((1, rate),)} for rate in (1.0, 2.0, 3.0)]
    few = [
        {"name": f"k{n}", "max_tokens": n, "tflops": curve}
        for n, curve in zip((2, 8), flat[:2], strict=True)
    ]
    cpu = Cpu.model_validate({"name": "x", "tflops": flat[2], "few_token_kernels": few})
    assert cpu.rate_tflops([1, 2, 3, 8, 9]).tolist() == [1, 1, 2, 2, 3]
    assert fault(Cpu, cpu.model_dump() | {"few_token_kernels": few[::-1]}).startswith(
        "few_token_kernels[1].max_tokens: must be above that of the kernel before"
    )


@pytest.mark.parametrize(
    ("placement", "gb_s"),
    [
        ("tensor-parallel", 440.0),  # 2 x 220
        ("one-socket", 220.0),
        ("interleaved", 318.84),  # 2 / (0.5 / 220 + 0.5 / 125)
        ("one-computes", 159.42),
    ],
)
def test_sockets_read_as_the_weights_are_placed(placement: str, gb_s: float) -> None:
    """KTransformers 2.3 and 3.3, with the bandwidths measured in 6.1."""
    numbers = {"sockets": 2, "local_gb_s": 220.0, "cross_socket_gb_s": 125.0}
    assert Numa.model_validate(numbers | {"placement": placement}).read_gb_s == pytest.approx(
        gb_s, abs=0.01
    )


def test_interleaved_sockets_explain_fiddlers_small_gain() -> None:
    """K11: 6.9 ms on one socket become 5.8 on two (within 5 %), the rest of the time unchanged."""
    size = 8 * get_model("deepseek-v3").expert_bytes  # 704.6 MB, top-8
    both = Numa(sockets=2, local_gb_s=220, cross_socket_gb_s=125, placement="interleaved")
    two_sockets_ms = 6.9 - size / 220e6 + size / (both.read_gb_s * 1e6)
    assert two_sockets_ms == pytest.approx(5.8, rel=0.05)


def test_links_are_found_by_name() -> None:
    """PCIe in every machine, the others where they are."""
    trimoe = get_machine("trimoe")
    assert (trimoe.link("pcie").gb_s, trimoe.link("dimm_link").gb_s) == (64, 25)
    # 1 us + 64 MB at 64 GB/s
    assert get_machine("edge-gpu-ndp-2").link("pcie").transfer_s(64e6) == pytest.approx(1.001e-3)


@pytest.mark.parametrize(
    ("machine", "ask", "says"),
    [
        ("cxl-ndp", lambda m: m.link("dimm_link"), "machine cxl-ndp: links.dimm_link: is missing"),
        ("cxl-ndp", lambda m: m.require_cpu(), "machine cxl-ndp: cpu: is missing"),
        ("cxl-ndp", lambda m: m.with_threads(4), "machine cxl-ndp: cpu: is missing"),
        ("rtx4090-7960x", lambda m: m.require_ndp(), "machine rtx4090-7960x: ndp: is missing"),
        (
            "rtx4090-7960x",
            lambda m: m.with_threads(12),
            "threads: must be one of those measured (1, 2, 4, 8, 16, 24), not 12",
        ),
        ("trimoe", lambda m: m.with_threads(12), "must be one of those measured (none), not 12"),
    ],
)
def test_a_missing_part_is_named(machine: str, ask: Any, says: str) -> None:
    """One line: which machine, which part."""
    assert says in refused(ask, get_machine(machine))


def test_ndp_units_are_as_many_as_dimms_if_nothing_else_is_said() -> None:
    """One per DIMM, one device, none."""
    found = [get_machine(n).ndp_units for n in ("trimoe", "edge-gpu-ndp-6", "cxl-ndp")]
    assert found == [16, 6, 1]
    assert get_machine("ktransformers-a100").ndp_units == 0


def test_a_table_belongs_to_a_number_of_threads() -> None:
    """The CPU's own number picks the table; a table without threads fits any."""
    machine = get_machine("rtx4090-7960x")
    for threads, ns in ((1, 22_060_000), (16, 5_480_000), (24, 3_670_000)):
        table = machine.with_threads(threads).time_table("mixtral-8x7b", "cpu")
        assert (table.threads, float(table(1))) == (threads, ns)
    assert machine.with_threads(24) == machine
    anywhere = {"model": "m", "device": "cpu", "points": ((1, 5.0), (2, 6.0)), "source": "x"}
    other = Machine.model_validate(a_machine("rtx4090-7960x", time_tables=[anywhere]))
    assert other.time_table("m", "cpu") is not None
    assert other.time_table("m", "gpu") is None
    assert other.time_table("n", "cpu") is None


def test_a_cpu_that_was_measured_with_other_threads_only_is_refused() -> None:
    """Rates do not scale by themselves, so nothing is guessed."""
    machine = Machine.model_validate(a_machine("rtx4090-7960x", cpu={"threads": 12}))
    assert refused(machine.time_table, "mixtral-8x7b", "cpu") == (
        "machine rtx4090-7960x: cpu.threads: mixtral-8x7b was measured with"
        " 1, 2, 4, 8, 16, 24, not 12"
    )


def test_a_second_table_of_the_same_thing_is_refused() -> None:
    """Nobody could say which one holds."""
    table = {"model": "{m}\n", "device": "cpu", "points": ((1, 5.0), (2, 6.0)), "source": "x"}
    data = a_machine("trimoe", time_tables=[table, table])
    assert fault(Machine, data) == "time_tables[1]: is a second table of m on cpu"


def test_a_table_that_falls_at_its_end_does_not_reach_zero() -> None:
    """The last slope goes on only if it rises."""
    table = TimeTable(model="m", device="cpu", points=((1, 9.0), (2, 6.0)), source="x")
    assert table([1, 2, 100]).tolist() == [9, 6, 6]
