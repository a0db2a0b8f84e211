"""Machines and their curves: what they compute, and what makes them invalid."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from moeopt import InputError, get_machine, set_machine
from tests.refusals import refused
from tests.rooms.core import input_error
from tests.rooms.sim import (
    Compute,
    Curve,
    Machine,
    TimeTable,
    cores_of,
    get_model,
    plain_machine,
    preset_names,
    step_costs,
)
from tests.sim.hardware.machine_data import put

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


LINK, DIMMS = "links.gpu0-numa0", "devices.numa0.memory.dimms"


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        (f"{LINK}.gb_s", 0, "links[0].gb_s: must be more than 0.0, not 0"),
        (f"{LINK}.gb_s", float("inf"), "links[0].gb_s: "),
        (f"{LINK}.gb_s", "64", 'links[0].gb_s: input should be a valid number, not "64"'),
        (f"{LINK}.mb_s", 64.0, "links[0].mb_s: is not a known key"),
        (f"{DIMMS}.count", 2.0, "devices[1].memory.dimms.count: must be an"),
        ("devices.numa0.ndp.internal_gb_s", None, "devices[1].computes[1].internal_gb_s: is miss"),
        ("devices.gpu0.gpu.peak_tflops", None, "devices[0].computes[0].peak_tflops: is missing"),
        ("devices.gpu0.gpu.cores", 8, "devices[0].computes[0].cores: is no field of a GPU"),
        ("devices.numa0.cpu.units", 8, "devices[1].computes[0].units: is no field of a CPU"),
        ("devices.numa0.ndp.kernel_us", 8, "devices[1].computes[1].kernel_us: is no field of NDP"),
        ("devices.numa0.memory.gb_s", None, "devices[1].memory.gb_s: is missing"),
        ("sources", {"name": 5}, "sources.name: must be a string, not 5"),
        ("sources", None, "sources: is missing"),
        ("gpu", {}, "gpu: is not a known key"),
        ("schema_version", 3, "schema_version: "),
    ],
)
def test_a_machine_with_an_impossible_number_is_refused(path: str, value: Any, says: str) -> None:
    """Zero, negative, infinite and textual rates, unknown and missing keys, other kinds' fields."""
    data = plain_machine(get_machine("trimoe"))
    put(data, path, value)
    assert fault(Machine, data).startswith(says)


def test_two_ways_to_say_what_reads_reach_are_refused() -> None:
    """A measured bandwidth wins over the share of the peak, which would have no effect."""
    data = plain_machine(get_machine("rtx4090+epyc-9004"))
    put(data, "devices.numa0.memory.measured_gb_s", 300.0)
    assert fault(Machine, data) == (
        "devices[1].memory.reached: has no effect beside measured_gb_s: leave one of them out"
    )


def test_a_whole_number_is_a_rate_too() -> None:
    """64 in a file means 64.0."""
    data = plain_machine(get_machine("trimoe"))
    put(data, f"{LINK}.gb_s", 64)
    assert Machine.model_validate(data) == get_machine("trimoe")


def test_avx512_computes_up_to_four_tokens_and_amx_above() -> None:
    """KTransformers 3.2: the crossover itself belongs to AVX-512."""
    cores = cores_of(get_machine("ktransformers-a100"), "tensor-parallel")
    # AMX fills 5, 8 and 16 of a tile's 16 rows at 2 x 21.3 TFLOPS
    expected = [12.0, 12.0, 42.6 * 5 / 16, 21.3, 42.6, 42.6]
    assert cores.rate_tflops([1, 4, 5, 8, 16, 512]) == pytest.approx(expected)


def test_the_crossover_is_where_the_faster_kernel_changes() -> None:
    """AVX-512's assumed rate lies between AMX's at four tokens and at five."""
    few, amx = get_machine("ktransformers-a100").require("cpu").only("cpu").kernels
    assert few.max_tokens is not None
    assert amx.tflops(few.max_tokens) < few.tflops(few.max_tokens)
    assert amx.tflops(few.max_tokens + 1) > few.tflops(few.max_tokens + 1)


def test_of_several_kernels_the_first_that_reaches_is_used() -> None:
    """Three kernels: up to 2, up to 8, and the main one."""
    kernels = [
        {"name": f"k{n}", "max_tokens": n, "tflops": {"scale": "linear", "points": ((1, rate),)}}
        for n, rate in ((2, 1.0), (8, 2.0), (None, 3.0))
    ]
    data = {"kind": "cpu", "name": "x", "kernels": kernels}
    cpu = Compute.model_validate(data)
    assert cpu.rate_tflops([1, 2, 3, 8, 9]).tolist() == [1, 1, 2, 2, 3]
    two, eight, main = kernels
    for order, says in (
        ((eight, two, main), "kernels[1].max_tokens: must be above that of the kernel before"),
        ((two, main, eight), "kernels[1].max_tokens: is missing: only the last has none"),
        ((two, eight), "kernels[1].max_tokens: must be absent: it is the last"),
        ((), "kernels: tuple should have at least 1 item"),
    ):
        assert fault(Compute, data | {"kernels": order}).startswith(says)


def test_interleaved_sockets_explain_fiddlers_small_gain() -> None:
    """K11: 6.9 ms on one socket become 5.8 on two (within 5 %), the rest of the time unchanged."""
    size = 8 * get_model("deepseek-v3").expert_bytes  # 704.6 MB, top-8
    two = get_machine("ktransformers-a100")
    both = cores_of(two, "interleaved").read_gb_s
    assert (two.nodes[0].memory.gb_s, both) == (220.0, pytest.approx(318.84, abs=0.01))
    two_sockets_ms = 6.9 - size / 220e6 + size / (both * 1e6)
    assert two_sockets_ms == pytest.approx(5.8, rel=0.05)


def test_links_are_found_by_name() -> None:
    """PCIe in every machine with a GPU, the others where they are."""
    trimoe = get_machine("trimoe")
    assert (trimoe.pcie.gb_s, trimoe.dimm_link.gb_s) == (64, 25)
    # 1 us + 64 MB at 64 GB/s
    assert get_machine("edge-gpu-ndp-2").pcie.transfer_s(64e6) == pytest.approx(1.001e-3)


@pytest.mark.parametrize(
    ("machine", "ask", "says"),
    [
        ("cxl-ndp", lambda m: m.dimm_link, "machine cxl-ndp: dram.link: is missing; a cost on it"),
        ("cxl-ndp", lambda m: m.require("cpu"), "machine cxl-ndp: cpu: is missing"),
        ("cxl-ndp", lambda m: m.check_threads(4), "machine cxl-ndp: cpu: is missing"),
        ("cxl-ndp", lambda m: cores_of(m, "isolate"), "machine cxl-ndp: cpu: is missing"),
        ("cxl-ndp", lambda m: m.device("numa0"), "devices: there is no numa0; gpu0, cxl0"),
        ("epyc-9004", lambda m: m.pcie, "machine epyc-9004: gpu: is missing; a cost on it"),
        ("rtx4090-7960x", lambda m: m.require("ndp"), "machine rtx4090-7960x: ndp: is missing"),
        (
            "rtx4090-7960x",
            lambda m: m.check_threads(12),
            "threads: must be one of those measured (1, 2, 4, 8, 16, 24), not 12",
        ),
        ("trimoe", lambda m: m.check_threads(12), "must be one of those measured (none), not 12"),
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
    """The threads asked for pick the table; a table without threads fits any."""
    machine, cpu = get_machine("rtx4090-7960x"), ("numa0", "cpu")
    for threads, ns in ((1, 22_060_000), (16, 5_480_000), (24, 3_670_000)):
        table = machine.measured("mixtral-8x7b", cpu, None, threads)
        assert table is not None
        assert (table.threads, float(table(1))) == (threads, ns)
    assert machine.measured("mixtral-8x7b", cpu, None) == table  # all 24 cores
    anywhere = {"model": "m", "at": cpu, "points": ((1, 5.0), (2, 6.0)), "source": "x"}
    data = plain_machine(machine) | {"tables": [anywhere]}
    other = Machine.model_validate(data)
    assert other.measured("m", cpu, None, 12) is not None
    assert other.measured("m", ("gpu0", "gpu"), None) is None
    assert other.measured("n", cpu, None) is None


def test_the_most_measured_threads_that_the_cores_allow_count() -> None:
    """Of 1, 2, 4, 8, 16 and 24 a CPU of 20 cores uses 16; one that was asked for is not guessed."""
    machine = set_machine(get_machine("rtx4090-7960x"), {"cpu.cores": 20})
    table = machine.measured("mixtral-8x7b", ("numa0", "cpu"), None)
    assert table is not None
    assert table.threads == 16
    model = get_model("mixtral-8x7b")
    assert step_costs(machine, model).path_ns("cpu_striped", 1, 1) == 5_480_000
    with pytest.raises(InputError, match=r"was measured with 1, 2, 4, 8, 16, 24, not 12"):
        step_costs(machine, model, threads=12).path_ns("cpu_striped", 1, 1)


def test_a_cpu_that_was_measured_with_more_threads_only_is_refused() -> None:
    """Rates do not scale by themselves, so nothing is guessed."""
    machine = get_machine("rtx4090-7960x")
    many = tuple(table for table in machine.tables if (table.threads or 0) > 8)
    machine = set_machine(machine.model_copy(update={"tables": many}), {"cpu.cores": 12})
    assert refused(machine.measured, "mixtral-8x7b", ("numa0", "cpu"), None) == (
        "machine rtx4090-7960x: threads: mixtral-8x7b was measured with 16, 24, not 12"
    )


def test_a_second_table_of_the_same_thing_is_refused() -> None:
    """Nobody could say which one holds."""
    at, points = ("numa0", "cpu"), ((1, 5.0), (2, 6.0))
    table = {"model": "{m}\n", "at": at, "points": points, "source": "x"}
    data = plain_machine(get_machine("trimoe")) | {"tables": [table, table]}
    assert fault(Machine, data) == "tables[1]: is a second table of m on numa0 cpu"


def test_a_table_that_falls_at_its_end_does_not_reach_zero() -> None:
    """The last slope goes on only if it rises."""
    points = ((1, 9.0), (2, 6.0))
    table = TimeTable(model="m", at=("numa0", "cpu"), points=points, source="x")
    assert table([1, 2, 100]).tolist() == [9, 6, 6]


A_LINK = {"ends": ["gpu0", "gpu1"], "kind": "nvlink", "gb_s": 50.0}


@pytest.mark.parametrize(
    ("link", "says"),
    [
        (A_LINK | {"ends": ["gpu0", "gpu7"]}, "links[2].ends[1]: there is no device 'gpu7'; there"),
        (A_LINK | {"ends": ["gpu0", "gpu0"]}, "links[2].ends: must be two devices"),
        (A_LINK | {"ends": ["gpu0", "numa0"]}, "links[2]: is a second one between gpu0 and numa0"),
        (A_LINK | {"ends": ["numa0", "gpu1"]}, "links[2]: is a second one between gpu1 and numa0"),
        (A_LINK | {"ends": ["gpu0"]}, "links[2].ends[1]: is missing"),
        (A_LINK | {"kind": "wire"}, "links[2].kind: must be 'pcie', 'nvlink', 'socket' or 'cxl'"),
        (A_LINK | {"latency_us": -1.0}, "links[2].latency_us: must be at least 0.0, not -1"),
    ],
)
def test_a_link_is_between_two_devices_and_alone(link: dict[str, Any], says: str) -> None:
    """No link to nowhere, to itself, or beside another one, whichever end comes first."""
    data = plain_machine(get_machine("2xrtx3090+epyc-7002"))
    assert len(data["links"]) == 2
    assert Machine.model_validate(data | {"links": [*data["links"], A_LINK]}).between(
        "gpu1", "gpu0"
    )
    assert fault(Machine, data | {"links": [*data["links"], link]}).startswith(says)


def test_every_gpu_has_a_link_to_every_offload_memory() -> None:
    """Without one no cost of a fetch could be said."""
    data = plain_machine(get_machine("rtx4090+2xepyc-9004"))
    for row, name in ((0, "numa0"), (1, "numa1")):
        links = [link for number, link in enumerate(data["links"]) if number != row]
        says = f"links: there is none between gpu0 and {name}"
        assert fault(Machine, data | {"links": links}) == says
    without = [link for link in data["links"] if link["kind"] != "socket"]
    assert len(Machine.model_validate(data | {"links": without}).links) == 2


@pytest.mark.parametrize(
    ("device", "says"),
    [
        ({"id": "gpu0"}, "devices[2].id: is a second gpu0"),
        ({"id": "GPU"}, "devices[2].id: "),
        ({"id": "numa"}, "devices[2].id: "),
        ({"computes": "twice"}, "devices[2].computes[1].kind: is a second cpu"),
        ({"computes": "gpu and ndp"}, "devices[2].computes: must not be GPU and NDP units"),
    ],
)
def test_a_device_is_named_once_and_has_one_of_each_kind(device: dict[str, Any], says: str) -> None:
    """Names are letters and a number; a second GPU is a device of its own."""
    data = plain_machine(get_machine("trimoe"))
    gpu, host = data["devices"]
    cpu, ndp = host["computes"]
    several = {"twice": [cpu, cpu], "gpu and ndp": [*gpu["computes"], ndp]}
    made = {"id": "cxl0", "memory": {"gb_s": 1.0}} | device
    if "computes" in made:
        made["computes"] = several[made["computes"]]
    assert fault(Machine, data | {"devices": [gpu, host, made]}).startswith(says)


def test_a_machine_computes_somewhere() -> None:
    """NDP units alone run no attention."""
    data = plain_machine(get_machine("cxl-ndp"))
    data |= {"devices": data["devices"][1:], "links": []}
    assert fault(Machine, data) == "devices: must have a GPU or a CPU among them"


def test_a_copy_within_one_memory_goes_at_its_bandwidth() -> None:
    """GPU and CPU of an Apple machine share theirs, so that no link is asked for."""
    name = next(name for name in preset_names("machines") if get_machine(name).unified)
    machine = get_machine(name)
    assert machine.links == ()
    assert machine.gpus == machine.nodes == machine.offload
    assert machine.pcie.gb_s == machine.require("gpu").memory.gb_s
    assert machine.without_gpus().gpus == ()
    assert [device.id for device in machine.without_gpus().nodes] == ["soc0"]


def test_more_gpus_have_the_links_of_the_first() -> None:
    """Links between hosts stay; a memory that is shared has one GPU."""
    machine = get_machine("rtx4090+2xepyc-9004").with_gpus(3)
    assert [device.id for device in machine.devices] == ["gpu0", "gpu1", "gpu2", "numa0", "numa1"]
    again = Machine.model_validate(plain_machine(machine))
    assert again == machine
    assert len(machine.links) == 3 * 2 + 1
    assert machine.between("numa1", "gpu2") is not None
    assert machine.without_gpus() == get_machine("rtx4090+2xepyc-9004").without_gpus()
