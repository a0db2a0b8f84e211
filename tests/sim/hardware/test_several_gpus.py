"""Machine files with several GPUs and memory nodes, and their names made of parts."""

from collections.abc import Sequence

import pytest
from pydantic import ValidationError

import moeopt
from moeopt import InputError, detect_machine
from tests.rooms.sim import Machine, System, describe_fields, machine_rows, plain_machine
from tests.sim.hardware.fake_systems import fake, lscpu

NODE = {"name": "numa0", "cores": 1, "bandwidth_gb_s": 1.0, "capacity_gb": 1.0}


@pytest.mark.parametrize(
    ("name", "devices"),
    [
        ("2xrtx3090+epyc-7002", ("gpu0", "gpu1", "host")),
        ("rtx5090+rtx4090+epyc-9005", ("gpu0", "gpu1", "host")),
        ("rtx4090+2xepyc-9004", ("gpu0", "numa0", "numa1")),
        ("none+xeon-6980p", ("host",)),
        ("rtx4090+epyc-9004", ("gpu0", "host")),
    ],
)
def test_machines_of_parts(name: str, devices: tuple[str, ...]) -> None:
    """What links call the devices; a file of the machine is the machine."""
    machine = moeopt.get_machine(name)
    assert machine.device_names == devices
    assert machine.gpu == next(iter(machine.every_gpu), None)
    assert Machine.model_validate(plain_machine(machine)) == machine
    assert all(row.source for row in machine_rows(machine))


def test_each_gpu_has_the_slower_end_as_its_link() -> None:
    """PCIe 5 for the first, PCIe 4 for the second; none from GPU to GPU."""
    machine = moeopt.get_machine("rtx5090+rtx4090+epyc-9005")
    found = [machine.between(gpu, "host") for gpu in ("gpu0", "gpu1")]
    assert [link and link.gb_s for link in found] == [63.0, 31.5]
    assert machine.between("gpu0", "gpu1") is None


def test_old_files_have_none_of_the_new_keys() -> None:
    """One `gpu`, one node: as it was."""
    data = plain_machine(moeopt.get_machine("rtx4090+epyc-9004"))
    assert not {"gpus", "nodes", "links", "unified"} & set(data)
    assert Machine.model_validate(data).every_gpu == (Machine.model_validate(data).gpu,)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"links": [{"from": "gpu0", "to": "gpu7", "gb_s": 25.0}]}, "there is no device 'gpu7'"),
        ({"links": [{"from": "gpu0", "to": "gpu0", "gb_s": 25.0}]}, "must be another device"),
        ({"links": [{"from": "gpu0", "to": "gpu1", "gb_s": 0.0}]}, "links"),
        ({"gpus": [{"name": "a", "hbm_gb": 0.0}]}, "gpus[0].hbm_gb"),
        ({"nodes": [NODE | {"name": "gpu0"}]}, "nodes[0].name"),
        ({"nodes": [NODE, NODE]}, "nodes[1].name"),
    ],
)
def test_wrong_files_are_refused_by_field(change: dict[str, object], words: str) -> None:
    """Devices without memory, links to nowhere."""
    data = plain_machine(moeopt.get_machine("2xrtx3090+epyc-7002")) | change
    with pytest.raises(ValueError, match=r".") as caught:
        Machine.model_validate(data)
    assert words in describe_fields(Machine, caught.value)  # type: ignore[arg-type]


def test_fields_of_the_first_of_several_are_not_set_in_silence() -> None:
    """They stand in `gpus`."""
    with pytest.raises(InputError, match="several GPUs"):
        moeopt.set_machine(moeopt.get_machine("2xrtx3090+epyc-7002"), {"gpu.hbm_gb": 48})


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

    machine = detect_machine(measure=False, system=System(plain.read, asked))
    assert [gpu.name[-4:] for gpu in machine.gpus] == ["3090", "4090"]
    assert [gpu.hbm_gb_s for gpu in machine.gpus] == [936.2, 1008.0]
    assert [(node.cores, node.capacity_gb) for node in machine.nodes] == [(32, 128.0)] * 2
    link = machine.between("gpu1", "gpu0")
    assert link.gb_s == pytest.approx(15.75, abs=0.01)
    to_node = machine.between("gpu0", "numa1")
    assert to_node.gb_s == pytest.approx(31.5, abs=0.02)


def test_one_meaning_a_file() -> None:
    """A link twice, or a GPU beside other ones, would leave a choice to the reader."""
    data = moeopt.get_machine("2xrtx3090+epyc-7002").model_dump(mode="json")
    link = {"from": "gpu0", "to": "gpu1", "gb_s": 20.0}
    back = {"from": "gpu1", "to": "gpu0", "gb_s": 9.0}
    with pytest.raises(ValidationError, match="is a second one between gpu0 and gpu1"):
        Machine.model_validate(data | {"links": [link, back]})
    other = moeopt.get_machine("rtx4090+epyc-7002").model_dump(mode="json")["gpu"]
    with pytest.raises(ValidationError, match="is another than gpus\\[0\\]"):
        Machine.model_validate(data | {"gpu": other})
