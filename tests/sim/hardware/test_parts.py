"""Parts that people own, and the page made of the schema."""

import re
from functools import partial
from pathlib import Path

import pytest

from moeopt import InputError, MoeoptWarning, get_machine
from tests.rooms.cli import run
from tests.rooms.sim import (
    SHORT,
    Machine,
    fields_of,
    get_model,
    machine_rows,
    parts,
    plain_machine,
    short_fields,
    step_costs,
)

WITHOUT_UNIT = {"reached", "attention_reached", "count", "channels", "units"}


@pytest.mark.parametrize(
    "host",
    [
        pytest.param(name, marks=[pytest.mark.slow] * (number % 12 > 0))
        for number, name in enumerate(parts.host_names())
    ],
)
def test_every_pair_is_a_machine(host: str) -> None:
    """With a source for every field, and the link of the slower end."""
    for gpu in ["", *parts.gpu_names()]:
        machine = get_machine(f"{gpu}+{host}" if gpu else host)
        paths = {row.field for row in machine_rows(machine)} - {"gpu"}
        assert paths == set(machine.sources) - {"devices"}, gpu
        assert ("devices" in machine.sources) == (not gpu), gpu
        assert all(machine.sources.values())
        assert [device.id for device in machine.devices] == ["gpu0"] * bool(gpu) + ["numa0"]
        assert bool(machine.links) == bool(gpu), gpu
        if gpu:
            slower = min(parts.gpu_part(gpu).pcie_gb_s, parts.host_part(host).pcie_gb_s)
            assert machine.pcie.gb_s == slower, gpu


def test_what_a_vendor_says_was_looked_up_or_is_said_not_to_be() -> None:
    """Each number that is neither assumed nor computed names the page it was checked on."""
    computed = {"memory.gb_s", "memory.dimms.one_gb_s"}
    known = [*map(parts.gpu_part, parts.gpu_names()), *map(parts.host_part, parts.host_names())]
    for path, source in (pair for part in known for pair in part.sources.items()):
        if not path.endswith(".name") and not (path in computed and "channel" in source):
            assert re.search("checked: |assumed|KTransformers", source), (path, source)
        assert "vendor data" not in source


def test_a_hosts_peak_is_channels_times_speed() -> None:
    """8 bytes a transfer; reads reach less."""
    for name in parts.host_names():
        memory = parts.host_part(name).memory
        dimms = memory.dimms
        assert dimms is not None
        assert dimms.channels is not None
        assert memory.gb_s == pytest.approx(dimms.channels * dimms.speed_mt_s * 8 / 1000), name
        assert dimms.one_gb_s == pytest.approx(dimms.speed_mt_s * 8 / 1000), name
        assert dimms.count == dimms.channels, name
        assert 0.7 <= (memory.reached or 1) <= 0.95, name


def test_a_part_is_known_by_its_whole_name() -> None:
    """As its driver or lscpu reports it, or shorter; a laptop's of the same number is another."""
    for reported, name in (
        ("NVIDIA GeForce RTX 4090", "rtx4090"),
        ("NVIDIA GeForce RTX 4090 D", "rtx4090d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx4090-laptop"),
        ("NVIDIA GeForce RTX 4060 Laptop GPU", "rtx4060-laptop"),
        ("NVIDIA GeForce RTX 4010", None),
        ("NVIDIA A100-SXM4-80GB", "a100"),
        ("NVIDIA H100 80GB HBM3", "h100"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("AMD Instinct MI300X", "mi300x"),
        ("Intel(R) Arc(TM) B580 Graphics", "arc-b580"),
        *((short, f"rtx{short}") for short in ("4090", "3070", "5060", "3070ti", "4060ti-8gb")),
        *((name, name) for name in ("mi50", "rx6900xt", "rx7900xtx", "l20", "h20", "h200", "a10")),
        ("rtx3060", "rtx3060-12gb"),
        ("RTX 3060 8GB", "rtx3060-8gb"),
        ("5090 laptop", "rtx5090-laptop"),
        ("gh200", "gh200-96gb"),
        ("a770", "arc-a770"),
        ("6000", None),
    ):
        assert parts.gpu_called(reported) == name, reported
    for reported, name in (
        ("AMD Ryzen 9 7950X 16-Core Processor", "ryzen-am5"),
        ("AMD Ryzen 7 9800X3D 8-Core Processor", "ryzen-am5"),
        ("AMD Ryzen 9 7940HS w/ Radeon 780M Graphics", None),
        ("AMD Ryzen 7 5800X 8-Core Processor", "ryzen-am4"),
        ("AMD Ryzen Threadripper PRO 7975WX 32-Cores", "threadripper-pro"),
        ("AMD EPYC 9754 128-Core Processor", "epyc-9004"),
        ("AMD EPYC 9575F 64-Core Processor", "epyc-9005"),
        ("AMD EPYC 7713 64-Core Processor", "epyc-7003"),
        ("Intel(R) Xeon(R) Platinum 8480+", "xeon-spr"),
        ("Intel(R) Xeon(R) Platinum 8380 CPU @ 2.30GHz", "xeon-icx"),
        ("Intel(R) Xeon(R) Platinum 8592+", "xeon-emr"),
        ("Intel(R) Xeon(R) 6972P", "xeon-6980p"),
        ("AMD EPYC 9355 32-Core Processor", "epyc-9005"),
        ("AMD EPYC 8534P 64-Core Processor", "epyc-8004"),
        ("9950x", "ryzen-am5"),
        ("7950x", "ryzen-am5"),
        ("5800x3d", "ryzen-am4"),
        ("epyc-9355", "epyc-9005"),
        ("9684X", "epyc-9004"),
        ("7763", "epyc-7003"),
        ("8480+", "xeon-spr"),
        ("i9-14900k", "intel-desktop"),
        ("9970x", "threadripper-9000"),
        ("7975wx", "threadripper-pro"),
        ("w9-3495x", "xeon-spr"),
        ("8086", None),
    ):
        assert parts.host_called(reported) == name, reported


def test_a_size_chooses_among_cards_of_one_name() -> None:
    """As nvidia-smi tells it; without one it is the usual card."""
    for reported, gib, name in (
        ("NVIDIA GeForce RTX 4060 Ti", 8.0, "rtx4060ti-8gb"),
        ("NVIDIA GeForce RTX 4060 Ti", 15.99, "rtx4060ti-16gb"),
        ("NVIDIA GeForce RTX 3060", 12.0, "rtx3060-12gb"),
        ("NVIDIA GeForce RTX 3080", 11.8, "rtx3080-12gb"),
    ):
        assert parts.gpu_called(reported, gib) == name


@pytest.mark.parametrize(
    ("said", "name"),
    [
        ("NVIDIA GeForce RTX 4090+AMD Ryzen 9 9950X 16-Core Processor", "rtx4090+ryzen-am5"),
        ("2xNVIDIA GeForce RTX 3090 + Intel(R) Xeon(R) Platinum 8480+", "2xrtx3090+xeon-spr"),
        ("4090+8480+", "rtx4090+xeon-spr"),
        ("epyc-9355", "epyc-9005"),
        ("Apple M3 Max", "m3-max"),
        ("apple-m4", "m4"),
        ("AMD RYZEN AI MAX+ 395 w/ Radeon 8060S", "ryzen-ai-max-395"),
        ("NVIDIA GB10", "dgx-spark"),
    ],
)
def test_machines_are_named_as_tools_print_them(said: str, name: str) -> None:
    """What was taken for what is told; our own names need no word."""
    with pytest.warns(MoeoptWarning, match="is taken for"):
        assert get_machine(said) == get_machine(name).model_copy(
            update={"sources": get_machine(said).sources}
        )


def test_an_unknown_part_brings_the_few_nearest() -> None:
    """No list of all of them."""
    with pytest.raises(InputError) as caught:
        get_machine("rtx4095+ryzen-am6")
    said = str(caught.value)
    assert "no GPU is called 'rtx4095'; did you mean rtx4090" in said
    assert "ryzen-am5" in said
    assert len(said) < 300
    with pytest.raises(InputError, match=r"it is a GPU: name the host, too, as in rtx4090\+"):
        get_machine("NVIDIA GeForce RTX 4090")


def test_chips_with_one_memory() -> None:
    """Apple M1 to M4: the GPU may have less than there is, at the memory's speed."""
    for name in ("m1", "m1-ultra", "m2-max", "m3", "m3-ultra", "m4-pro", "m4-max"):
        machine = get_machine(name)
        assert machine.unified
        [chip] = machine.devices
        assert chip.memory.gb_s == machine.pcie.gb_s > (chip.only("cpu").most_gb_s or 0) > 0
        assert 0.6 < chip.gpu_gib / chip.memory.capacity_gib <= 0.75


def test_a_file_of_that_name_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Someone's own file is not hidden by parts."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a100+mine").write_text('{"schema_version": 2}')
    with pytest.raises(InputError) as caught:
        get_machine("a100+mine")
    needed = ("name", "devices", "sources")
    assert all(f"{field}: is missing" in str(caught.value) for field in needed)


def test_a_machine_with_a_gpu_needs_its_link() -> None:
    """One without needs none; one with neither GPU nor CPU computes nothing."""
    data = plain_machine(get_machine("a100+epyc-9004"))
    with pytest.raises(ValueError, match="there is none between gpu0 and numa0"):
        Machine.model_validate(data | {"links": []})
    gpu, host = data["devices"]
    assert Machine.model_validate(data | {"devices": [host], "links": []}).gpus == ()
    bare = host | {"computes": []}
    assert Machine.model_validate(data | {"devices": [gpu, bare]}).nodes == ()
    with pytest.raises(ValueError, match="must have a GPU or a CPU among them"):
        Machine.model_validate(data | {"devices": [bare], "links": []})


def test_what_needs_a_gpu_refuses_a_machine_without_one() -> None:
    """In one line that names the field."""
    machine, model = get_machine("epyc-9004"), get_model("deepseek-v2-lite")
    refusal = "machine epyc-9004: gpu: is missing; a cost on it is asked for"
    for cost in (
        step_costs(machine, model).layer,
        partial(step_costs(machine, model).computation_s, "gpu", 1),
    ):
        with pytest.raises(InputError, match=refusal):
            cost()
    assert step_costs(machine, model).computation_s("cpu", 1) > 0


def test_the_lists_name_every_part(capsys: pytest.CaptureFixture[str]) -> None:
    """`moeopt list gpus` and `hosts`."""
    assert run(["list", "gpus"]) == run(["list", "hosts"]) == 0
    assert capsys.readouterr().out.split() == parts.gpu_names() + parts.host_names()


def test_fields_are_printed_and_the_guide_names_real_ones(
    root: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`moeopt machine fields` has each field and part; docs/system.md names no other field."""
    assert run(["machine", "fields"]) == 0
    printed = capsys.readouterr().out
    fields = fields_of(Machine)
    names = {path.rpartition(".")[2].removesuffix("[]") for path in fields}
    for name in (*names, *parts.gpu_names(), *parts.host_names()):
        assert f"| `{name}` |" in printed, name
    guide = (root / "docs" / "system.md").read_text()
    named = set(re.findall(r"(?<![\w.])(?:cpu|gpu|dram|pcie|socket)\.\w+", guide))
    assert len(named) > 5
    known = {f"{short}.{name}" for short in SHORT for name in short_fields(short)}
    assert named <= {*known, "dram.triad_gb_s"}  # which is written as another field


def test_every_field_is_explained() -> None:
    """In words; a number with its unit unless it has none; an absence with what it means."""
    for path, facts in fields_of(Machine).items():
        assert facts.text, path
        assert facts.required or facts.absent, path
        number = facts.kind in ("number", "integer", "curve")
        if number and path.rpartition(".")[2] not in WITHOUT_UNIT:
            assert facts.unit, path
