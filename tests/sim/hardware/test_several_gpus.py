"""Machine files with several GPUs and memory nodes, and their names made of parts."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

import moeopt
from moeopt import detect_machine
from tests.rooms.sim import Machine, Probe, describe_fields, machine_rows, plain_machine
from tests.sim.hardware.fake_systems import fake, lscpu
from tests.sim.hardware.machine_data import put


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("2xrtx3090+epyc-7002", ("gpu0", "gpu1", "numa0")),
        ("rtx5090+rtx4090+epyc-9005", ("gpu0", "gpu1", "numa0")),
        ("rtx4090+2xepyc-9004", ("gpu0", "numa0", "numa1")),
        ("none+xeon-6980p", ("numa0",)),
        ("rtx4090+epyc-9004", ("gpu0", "numa0")),
    ],
)
def test_machines_of_parts(name: str, devices: tuple[str, ...]) -> None:
    """What links call the devices; a file of the machine is the machine."""
    machine = moeopt.get_machine(name)
    assert tuple(device.id for device in machine.devices) == devices
    assert machine.gpus == tuple(d for d in machine.devices if d.id.startswith("gpu"))
    assert Machine.model_validate(plain_machine(machine)) == machine
    assert all(row.source for row in machine_rows(machine))


def test_each_gpu_has_the_slower_end_as_its_link() -> None:
    """PCIe 5 for the first, PCIe 4 for the second; none from GPU to GPU."""
    machine = moeopt.get_machine("rtx5090+rtx4090+epyc-9005")
    found = [machine.between(gpu, "numa0") for gpu in ("gpu0", "gpu1")]
    assert [link and link.gb_s for link in found] == [63.0, 31.5]
    assert machine.between("gpu0", "gpu1") is None


def test_absent_parts_are_not_in_a_file() -> None:
    """One GPU and one node: neither tables nor runtimes, and no field that is not stated."""
    data = plain_machine(moeopt.get_machine("rtx4090+epyc-9004"))
    assert not {"tables", "runtimes", "sync_us"} & set(data)
    assert None not in data["devices"][1]["memory"].values()


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        ("links", [{"ends": ["gpu0", "gpu7"], "kind": "pcie", "gb_s": 2.0}], "no device 'gpu7'"),
        ("links", [{"ends": ["gpu0", "gpu0"], "kind": "pcie", "gb_s": 2.0}], "must be two devices"),
        ("links", [{"ends": ["gpu0", "gpu1"], "kind": "pcie", "gb_s": 0.0}], "links[0].gb_s"),
        ("devices.gpu0.memory.capacity_gib", 0.0, "devices[0].memory.capacity_gib: must be more"),
        ("devices.gpu1.id", "gpu0", "devices[1].id: is a second gpu0"),
        ("devices.gpu1.id", "numa0", "devices[2].id: is a second numa0"),
    ],
)
def test_wrong_files_are_refused_by_field(path: str, value: object, words: str) -> None:
    """Devices without memory, links to nowhere."""
    data = plain_machine(moeopt.get_machine("2xrtx3090+epyc-7002"))
    put(data, path, value)
    with pytest.raises(ValidationError) as caught:
        Machine.model_validate(data)
    assert words in describe_fields(Machine, caught.value)


def test_a_short_name_sets_the_field_of_all_gpus() -> None:
    """A full path that of one."""
    machine = moeopt.get_machine("2xrtx3090+epyc-7002")
    every = moeopt.set_machine(machine, {"gpu.capacity_gib": 48})
    assert [gpu.gpu_gib for gpu in every.gpus] == [48, 48]
    one = moeopt.set_machine(machine, {"devices.gpu1.memory.capacity_gib": 48})
    assert [gpu.gpu_gib for gpu in one.gpus] == [24, 48]


def test_all_gpus_nodes_and_peers_are_found() -> None:
    """Two cards that read each other's memory, on two sockets."""
    two = "NVIDIA GeForce RTX 3090, 24576, 4, 16\nNVIDIA GeForce RTX 4090, 24564, 4, 8\n"
    topology = " \tGPU0\tGPU1\n GPU0\tX\tOK\n GPU1\tOK\tX\n"
    commands = {"lscpu": lscpu("AMD EPYC 7532 32-Core Processor", 32, sockets=2)}
    files = {
        f"/sys/devices/system/node/node{n}/{file}": text
        for n in range(2)
        for file, text in (
            ("meminfo", f"Node {n} MemTotal:       134217728 kB\n"),
            ("cpulist", f"{32 * n}-{32 * n + 31},{64 + 32 * n}-{95 + 32 * n}\n"),
        )
    }
    plain = fake(commands, files)

    def asked(command: Sequence[str]) -> str | None:
        if command[0] == "nvidia-smi":
            return topology if command[1] == "topo" else two
        return plain.run(command)

    machine = detect_machine(measure=False, system=Probe(plain.read, asked))
    assert [gpu.only("gpu").name[-4:] for gpu in machine.gpus] == ["3090", "4090"]
    assert [gpu.memory.gb_s for gpu in machine.gpus] == [936.2, 1008.0]
    found = [(node.only("cpu").cores, node.memory.capacity_gib) for node in machine.nodes]
    assert found == [(32, 128.0)] * 2
    link = machine.between("gpu1", "gpu0")
    assert link.gb_s == pytest.approx(15.75, abs=0.01)
    to_node = machine.between("gpu0", "numa1")
    assert to_node.gb_s == pytest.approx(31.5, abs=0.02)
