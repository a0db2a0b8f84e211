"""Machine files of the first form: what each becomes, and what is wrong with a faulty one."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from moeopt import InputError, get_machine
from tests.rooms.sim import Machine, converted, cores_of, is_old, plain_machine


def flat(rate: float) -> dict[str, Any]:
    """Return a curve of one rate."""
    return {"scale": "linear", "points": [[1, rate]]}


GPU = {
    "name": "A",
    "peak_tflops": 100.0,
    "hbm_gb_s": 1000.0,
    "hbm_gb": 24.0,
    "utilization": {"scale": "linear", "points": [[0, 0.0], [256, 0.6]]},
    "bandwidth_efficiency": 0.8,
    "attention_bandwidth_efficiency": 0.4,
    "layer_fixed_us": 100.0,
    "step_fixed_us": 9.0,
    "kernel_us": 3.0,
    "reserve_mib": {"llama.cpp": 900},
}
CPU = {
    "name": "B",
    "kernel": "AMX",
    "tflops": flat(4.0),
    "few_token_kernels": [{"name": "AVX-512", "max_tokens": 4, "tflops": flat(2.0)}],
    "threads": 32,
    "bandwidth_efficiency": 0.7,
    "kernel_us": 5.0,
}
DRAM = {
    "dimms": 12,
    "channels": 12,
    "speed_mt_s": 4800.0,
    "striped_gb_s": 460.8,
    "localized_gb_s": 38.4,
    "efficiency": 0.8,
    "capacity_gb": 384.0,
}
SOURCES = {"gpu.hbm_gb_s": "sheet", "cpu": "of the CPU", "dram.striped_gb_s": "channels"}
ONE: dict[str, Any] = {
    "name": "one",
    "gpu": GPU,
    "cpu": CPU,
    "dram": DRAM,
    "pcie_gb_s": 32.0,
    "pcie_latency_us": 2.0,
    "sync_us": 42.0,
    "sources": SOURCES | {"pcie_gb_s": "measured"},
}


def old(**changes: Any) -> dict[str, Any]:
    """Return the file of one GPU and host with parts replaced; None takes one out."""
    data = copy.deepcopy(ONE) | changes
    return {key: value for key, value in data.items() if value is not None}


def read(data: dict[str, Any], folder: Path) -> Machine:
    """Return the machine of a file with such data; it is the same after a file of today's form."""
    assert is_old(data)
    path = folder / "old.json"
    path.write_text(json.dumps(data))
    machine = get_machine(path)
    again = folder / "new.json"
    again.write_text(json.dumps(plain_machine(machine)))
    assert get_machine(again) == machine
    assert not is_old(plain_machine(machine))
    return machine


def test_one_gpu_and_a_host(tmp_path: Path) -> None:
    """Every field under its new name; rates of the peak become TFLOPS."""
    machine = read(old(), tmp_path)
    gpu, host = machine.devices
    assert (gpu.id, host.id, machine.name, machine.sync_us) == ("gpu0", "numa0", "one", 42.0)
    memory, compute = gpu.memory, gpu.only("gpu")
    assert (memory.capacity_gib, memory.gb_s) == (24.0, 1000.0)
    assert (memory.reached, memory.attention_reached) == (0.8, 0.4)
    assert (compute.name, compute.peak_tflops, compute.kernel_us) == ("A", 100.0, 3.0)
    assert (compute.layer_us, compute.step_us) == (100.0, 9.0)
    assert compute.reserve_mib == {"llama.cpp": 900}
    assert compute.rate_tflops([128, 256, 999]) == pytest.approx([30.0, 60.0, 60.0])
    cpu, memory = host.only("cpu"), host.memory
    assert (cpu.name, cpu.cores, cpu.reached, cpu.kernel_us) == ("B", 32, 0.7, 5.0)
    assert [kernel.name for kernel in cpu.kernels] == ["AVX-512", "AMX"]
    assert cpu.rate_tflops([1, 4, 5]).tolist() == [2.0, 2.0, 4.0]
    assert (memory.capacity_gib, memory.gb_s, memory.reached) == (384.0, 460.8, 0.8)
    assert memory.measured_gb_s is None
    dimms = memory.dimms
    assert dimms is not None
    assert (dimms.count, dimms.channels, dimms.speed_mt_s, dimms.one_gb_s) == (12, 12, 4800, 38.4)
    [link] = machine.links
    assert (link.ends, link.kind) == (("gpu0", "numa0"), "pcie")
    assert (link.gb_s, link.latency_us) == (32.0, 2.0)


def test_sources_go_with_their_numbers(tmp_path: Path) -> None:
    """That of a part becomes that of each number in it."""
    sources = read(old(), tmp_path).sources
    assert sources["devices.gpu0.memory.gb_s"] == "sheet"
    assert sources["devices.numa0.memory.gb_s"] == "channels"
    assert sources["devices.numa0.cpu.cores"] == "of the CPU"
    assert sources["devices.numa0.cpu.kernels"] == "of the CPU"
    assert sources["links.gpu0-numa0.gb_s"] == "measured"
    said = {"cpu.tflops": "main", "cpu.few_token_kernels[0].tflops": "few"}
    sources = read(old(sources=said), tmp_path).sources
    assert sources == {"devices.numa0.cpu.kernels": "main; few"}


def test_a_measured_bandwidth_stands_for_the_share_of_the_peak(tmp_path: Path) -> None:
    """As it won before."""
    machine = read(old(cpu=CPU | {"bandwidth_gb_s": 300.0}), tmp_path)
    memory = machine.nodes[0].memory
    assert (memory.measured_gb_s, memory.reached, memory.gb_s) == (300.0, None, 460.8)
    assert "devices.numa0.memory.reached" not in machine.sources
    assert machine.sources["devices.numa0.memory.measured_gb_s"] == "of the CPU"


def test_a_host_alone(tmp_path: Path) -> None:
    """Neither GPU nor link, and the reason why."""
    data = old(gpu=None, pcie_gb_s=None, pcie_latency_us=None, sources={"gpu": "none found"})
    machine = read(data, tmp_path)
    assert ([device.id for device in machine.devices], machine.links) == (["numa0"], ())
    assert machine.sources == {"devices": "none found"}


def test_a_gpu_without_a_cpu_fetches_from_memory(tmp_path: Path) -> None:
    """Nothing computes beside the memory."""
    machine = read(old(cpu=None), tmp_path)
    assert [device.id for device in machine.offload] == ["numa0"]
    assert (machine.nodes, machine.pcie.gb_s) == ((), 32.0)


OTHER = GPU | {"name": "C", "hbm_gb": 48.0}
PEER = {"from": "gpu0", "to": "gpu1", "gb_s": 25.0, "latency_us": 4.0}
HOST_LINK = {"from": "host", "to": "gpu1", "gb_s": 16.0}


def test_several_gpus_with_links(tmp_path: Path) -> None:
    """Each in its order; a link to the host that is not given is PCIe."""
    links = [PEER, HOST_LINK, PEER | {"to": "gpu2", "gb_s": 300.0}]
    data = old(gpu=None, gpus=[GPU, OTHER, GPU], links=links)
    machine = read(data, tmp_path)
    assert [gpu.gpu_gib for gpu in machine.gpus] == [24.0, 48.0, 24.0]
    found = {link.ends: (link.kind, link.gb_s, link.latency_us) for link in machine.links}
    assert found == {
        ("gpu0", "gpu1"): ("pcie", 25.0, 4.0),
        ("gpu0", "gpu2"): ("nvlink", 300.0, 4.0),
        ("gpu0", "numa0"): ("pcie", 32.0, 2.0),
        ("gpu1", "numa0"): ("pcie", 16.0, 0.0),
        ("gpu2", "numa0"): ("pcie", 32.0, 2.0),
    }
    as_object = read(data | {"links": {"between": links}}, tmp_path)
    assert as_object == machine
    assert read(data | {"gpu": GPU}, tmp_path) == machine  # the first, said twice


def test_two_sockets_by_what_each_reads(tmp_path: Path) -> None:
    """`cpu.numa`: half of the cores, rates, DIMMs and capacity each, and a link between them."""
    numa = {"sockets": 2, "local_gb_s": 220.0, "cross_socket_gb_s": 125.0}
    cpu = CPU | {"name": "2 x B, 16 cores each", "numa": numa}
    machine = read(old(cpu=cpu), tmp_path)
    assert [node.id for node in machine.nodes] == ["numa0", "numa1"]
    for node in machine.nodes:
        own, memory, dimms = node.only("cpu"), node.memory, node.memory.dimms
        assert dimms is not None
        assert (own.name, own.cores, dimms.count, dimms.channels) == ("B", 16, 6, 6)
        assert own.rate_tflops([1, 5]).tolist() == [1.0, 2.0]
        assert (memory.capacity_gib, memory.gb_s, memory.measured_gb_s) == (192.0, 230.4, 220.0)
        assert dimms.one_gb_s == 38.4
    socket = machine.between("numa0", "numa1")
    assert socket is not None
    assert socket.gb_s == 125.0
    assert [link.kind for link in machine.links] == ["pcie", "pcie", "socket"]
    assert cores_of(machine, "tensor-parallel").read_gb_s == 440.0


def test_an_odd_number_of_cores_is_shared_out_whole(tmp_path: Path) -> None:
    """The first socket has one more."""
    numa = {"sockets": 2, "local_gb_s": 230.4, "cross_socket_gb_s": 125.0}
    machine = read(old(cpu=CPU | {"threads": 33, "numa": numa}), tmp_path)
    assert [node.only("cpu").cores for node in machine.nodes] == [17, 16]
    assert machine.nodes[0].memory.measured_gb_s is None  # the peak itself


NODES = [
    {"name": "near", "cores": 24, "bandwidth_gb_s": 200.0, "capacity_gb": 256.0},
    {"name": "far", "cores": 8, "bandwidth_gb_s": 100.0, "capacity_gb": 128.0},
]


def test_nodes_of_different_sizes(tmp_path: Path) -> None:
    """Each has its own cores, bandwidth and capacity; rates are shared by cores."""
    links = [
        {"from": "gpu0", "to": "far", "gb_s": 8.0},
        {"from": "far", "to": "near", "gb_s": 60.0},
    ]
    machine = read(old(nodes=NODES, links=links), tmp_path)
    near, far = machine.nodes
    assert (near.id, far.id) == ("numa0", "numa1")
    assert (near.only("cpu").cores, far.only("cpu").cores) == (24, 8)
    assert (near.memory.measured_gb_s, far.memory.measured_gb_s) == (200.0, 100.0)
    assert (near.memory.capacity_gib, far.memory.capacity_gib) == (256.0, 128.0)
    assert near.only("cpu").rate_tflops([1, 5]) == pytest.approx([1.5, 3.0])
    assert far.only("cpu").rate_tflops([1, 5]) == pytest.approx([0.5, 1.0])
    rates = {link.ends: (link.kind, link.gb_s) for link in machine.links}
    assert rates == {
        ("gpu0", "numa0"): ("pcie", 32.0),
        ("gpu0", "numa1"): ("pcie", 8.0),
        ("numa0", "numa1"): ("socket", 60.0),
    }


def test_a_memory_that_gpu_and_cpu_share(tmp_path: Path) -> None:
    """One device, no link; what each may have of it is a limit of its own."""
    cpu = CPU | {"bandwidth_gb_s": 220.0}
    dram = {"dimms": 1, "striped_gb_s": 400.0, "capacity_gb": 128.0}
    gpu = GPU | {"hbm_gb": 96.0, "hbm_gb_s": 400.0}
    said = {"gpu.hbm_gb": "limit", "dram.capacity_gb": "whole", "cpu.bandwidth_gb_s": "of the CPU"}
    machine = read(
        old(gpu=gpu, cpu=cpu, dram=dram, pcie_gb_s=400.0, unified=True, sources=said), tmp_path
    )
    assert machine.unified
    assert machine.links == ()
    [chip] = machine.devices
    assert (chip.id, chip.memory.capacity_gib, chip.memory.gb_s) == ("soc0", 128.0, 400.0)
    assert (chip.gpu_gib, chip.only("cpu").most_gb_s) == (96.0, 220.0)
    assert machine.sources == {
        "devices.soc0.gpu.most_gib": "limit",
        "devices.soc0.memory.capacity_gib": "whole",
        "devices.soc0.cpu.most_gb_s": "of the CPU",
    }


NDP = {"gflops": 256.0, "internal_gb_s": 153.6, "units": 12, "gflops_bits": 8.0}


def test_dimms_that_compute_and_their_link(tmp_path: Path) -> None:
    """On the host's memory, beside the CPU (TriMoE)."""
    links = {"dimm_link": {"gb_s": 25.0, "latency_us": 1.0}}
    said = {"ndp.gflops": "table", "links.dimm_link.gb_s": "lanes"}
    machine = read(old(ndp=NDP, links=links, sources=said), tmp_path)
    assert [compute.kind for compute in machine.device("numa0").computes] == ["cpu", "ndp"]
    ndp = machine.require("ndp").only("ndp")
    assert (ndp.internal_gb_s, ndp.units, ndp.rate_bits) == (153.6, 12, 8.0)
    assert ndp.rate_tflops(1) == pytest.approx(0.256)
    assert ndp.rate_tflops(1, 4) == pytest.approx(0.512)
    assert (machine.dimm_link.gb_s, machine.dimm_link.latency_us) == (25.0, 1.0)
    assert machine.sources["devices.numa0.ndp.kernels"] == "table"
    assert machine.sources["devices.numa0.memory.dimms.link.gb_s"] == "lanes"


def test_a_cxl_box_that_computes(tmp_path: Path) -> None:
    """A device of its own; its link is the one to the GPU."""
    machine = read(old(cpu=None, ndp=NDP, links={"cxl": {"gb_s": 32.0}}), tmp_path)
    assert [device.id for device in machine.devices] == ["gpu0", "cxl0"]
    [link] = machine.links
    assert (link.ends, link.kind, link.gb_s) == (("gpu0", "cxl0"), "cxl", 32.0)
    assert machine.nodes == ()


def test_time_tables_say_where(tmp_path: Path) -> None:
    """The first GPU, the first host, or the link between them."""
    table = {"model": "m", "points": [[1, 5.0], [2, 6.0]], "source": "x", "threads": 8}
    tables = [table | {"device": device} for device in ("gpu", "cpu", "ndp", "pcie")]
    machine = read(old(ndp=NDP, time_tables=tables), tmp_path)
    assert [table.at for table in machine.tables] == [
        ("gpu0", "gpu"),
        ("numa0", "cpu"),
        ("numa0", "ndp"),
        ("gpu0", "numa0"),
    ]
    found = machine.measured("m", ("numa0", "cpu"), None)
    assert found is not None
    assert found.threads == 8


NUMA = {"sockets": 2, "local_gb_s": 220.0, "cross_socket_gb_s": 125.0}
FEW = {"name": "x", "max_tokens": 4, "tflops": flat(1.0)}


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"dram": None}, "dram: is missing"),
        ({"dram": 3}, "dram: must be an object, not 3"),
        ({"cpu": None, "gpu": None}, "cpu: is missing"),
        ({"pcie_gb_s": None}, "pcie_gb_s: is missing"),
        ({"gpu": GPU | {"hbm_gbs": 1}}, "gpu.hbm_gbs: is not a known key"),
        ({"gpu": {k: v for k, v in GPU.items() if k != "utilization"}}, "gpu.utilization: is miss"),
        ({"gpu": GPU | {"utilization": flat(60.0)}}, "gpu.utilization: must be a fraction of peak"),
        ({"gpu": GPU | {"utilization": 0.6}}, "gpu.utilization: must be a curve"),
        ({"gpu": GPU | {"peak_tflops": "many"}}, "gpu.peak_tflops: must be a number, not 'many'"),
        ({"gpus": [GPU, GPU | {"x": 1}]}, "gpus[1].x: is not a known key"),
        ({"gpus": [GPU] * 65}, "gpus: must be at most 64, not 65"),
        ({"gpus": [3]}, "gpus: must be a list of objects"),
        ({"cpu": CPU | {"tflop": 1}}, "cpu.tflop: is not a known key"),
        ({"cpu": {"name": "x"}}, "cpu.tflops: is missing"),
        ({"cpu": CPU | {"tflops": flat("x")}}, "cpu.tflops: must be a curve"),  # type: ignore[arg-type]
        ({"cpu": CPU | {"threads": 0}}, "cpu.threads: must be an integer from 1 to 65536, not 0"),
        ({"cpu": CPU | {"threads": 2.5}}, "cpu.threads: must be an integer from 1 to 65536"),
        ({"cpu": CPU | {"few_token_kernels": 3}}, "cpu.few_token_kernels: must be a list of obj"),
        ({"cpu": CPU | {"few_token_kernels": [FEW | {"y": 1}]}}, "few_token_kernels[0].y: is not"),
        (
            {"cpu": CPU | {"numa": NUMA | {"sockets": 10**9}}},
            "cpu.numa.sockets: must be an integer",
        ),
        ({"cpu": CPU | {"numa": NUMA | {"cross_gb_s": 1}}}, "cpu.numa.cross_gb_s: is not a known"),
        ({"nodes": [NODES[0] | {"cores": None}]}, "nodes[0].cores: must be an integer from 1"),
        ({"nodes": [*NODES, NODES[0] | {"gb": 1}]}, "nodes[2].gb: is not a known key"),
        ({"ndp": NDP | {"gflops": "x"}}, "ndp.gflops: must be a number, not 'x'"),
        ({"ndp": NDP | {"flops": 1}}, "ndp.flops: is not a known key"),
        ({"links": {"cxl": {"gb_s": 32.0}}}, "links.cxl: was read by nothing beside a CPU"),
        ({"links": {"pcie": {}}}, "links.pcie: is not a known key"),
        ({"links": [PEER]}, "links[0]: there is no such device; there are gpu0, numa0"),
        ({"links": [PEER | {"via": "x"}]}, "links[0].via: is not a known key"),
        ({"unified": True, "cpu": None}, "cpu: is missing"),
        ({"time_tables": [{"device": "tpu"}]}, "time_tables.device: must be gpu or cpu or ndp"),
        ({"bandwidth": 3}, "bandwidth: is not a known key"),
        ({"sources": {"cpu.tflops": 5}}, "sources.cpu.tflops: must be a string, not 5"),
        ({"sources": ["x"]}, "sources: must be an object, not ['x']"),
    ],
)
def test_a_faulty_old_file_is_one_line_with_the_field(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """In the old names, as the file has them."""
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old(**changes)))
    with pytest.raises(InputError) as caught:
        get_machine(path)
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert says in said
    assert said.isprintable()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        (
            {"gpu": GPU | {"hbm_gb_s": -1.0}},
            "devices[0].memory.gb_s: must be more than 0.0, not -1",
        ),
        ({"dram": DRAM | {"efficiency": 2.0}}, "devices[1].memory.reached: must be at most 1.0"),
        ({"pcie_gb_s": "64"}, "links[0].gb_s: input should be a valid number"),
        ({"name": 3}, "name: must be a string, not 3"),
    ],
)
def test_a_number_that_cannot_be_is_refused_in_its_new_place(
    changes: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """The conversion moves it, and the machine refuses it."""
    path = tmp_path / "old.json"
    path.write_text(json.dumps(old(**changes)))
    with pytest.raises(InputError) as caught:
        get_machine(path)
    assert says in str(caught.value)


VALUES = (None, 0, -1, 2.5, "x", [], {}, [1], [{}], True, 1e308, 10**400, {"points": [[1]]})


def spots(part: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return the way to every value of JSON data."""
    items = part.items() if isinstance(part, dict) else enumerate(part)
    found: list[tuple[Any, ...]] = []
    for key, value in items:
        found.append((*at, key))
        if isinstance(value, dict | list):
            found += spots(value, (*at, key))
    return found


def test_no_value_anywhere_breaks_the_conversion() -> None:
    """A machine, or a refusal of one line: never a traceback."""
    numa = {"cpu": CPU | {"numa": NUMA}, "ndp": NDP, "links": {"dimm_link": {"gb_s": 25.0}}}
    tables = [{"model": "m", "device": "cpu", "points": [[1, 5.0], [2, 6.0]], "source": "x"}]
    several = {"gpus": [GPU, OTHER], "nodes": NODES, "links": [PEER], "time_tables": tables}
    ended = {"refused": 0, "read": 0}
    for data in (old(**numa), old(**several, gpu=None), old(unified=True)):
        for *above, last in spots(data):
            for value in VALUES:
                broken = at = copy.deepcopy(data)
                for key in above:
                    at = at[key]
                at[last] = value
                try:
                    Machine.model_validate(converted(broken, "file"))
                    ended["read"] += 1
                except (InputError, ValidationError):  # get_machine says the latter in a line, too
                    ended["refused"] += 1
    assert min(ended.values()) > 100
