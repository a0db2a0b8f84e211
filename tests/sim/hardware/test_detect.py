"""Describing the machine at hand, on what other machines' tools print."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moeopt import InputError, detect_machine, get_machine, save
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.sim import (
    GpuRates,
    Probe,
    Rate,
    cpu_facts,
    detect,
    free_bytes,
    gpu_facts,
    machine_rows,
    memory_bytes,
    memory_facts,
    plain_machine,
    this_system,
)
from tests.rooms.sim import preset_names as names
from tests.rooms.sim import profile_module as profile
from tests.sim.hardware.fake_systems import CLOUD, TWELVE, WORKSTATION, dmidecode, fake, lscpu

GPU = GpuRates("X", 8.0, Rate(120.0, "torch"), Rate(900.0, "torch"), Rate(26.0, "torch"))


@pytest.fixture(autouse=True)
def rates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure nothing: 380 GB/s and 2 TFLOPS, no GPU that torch sees."""
    monkeypatch.setattr(profile, "read_bandwidth", lambda *_: Rate(380.0, "measured: reads"))
    monkeypatch.setattr(profile, "cpu_tflops", lambda: Rate(2.0, "measured: products"))
    monkeypatch.setattr(profile, "gpu_rates", lambda: None)


def test_a_workstation_is_described_from_what_its_tools_say() -> None:
    """Memory and link by their own data, the GPU's rates by the vendor's, the CPU's measured."""
    machine = detect_machine(name="mine", system=WORKSTATION)
    card, host = machine.devices
    gpu, cpu, memory = card.only("gpu"), host.only("cpu"), host.memory
    dimms = memory.dimms
    assert dimms is not None
    assert (dimms.count, dimms.channels, dimms.speed_mt_s, memory.gb_s) == (12, 12, 4800, 460.8)
    assert dimms.one_gb_s == 38.4
    assert memory.capacity_gib == pytest.approx(396361728 * 1024 / 2**30, abs=0.01)
    assert (gpu.name, gpu.peak_tflops, card.memory.gb_s) == ("NVIDIA GeForce RTX 4090", 165.2, 1008)
    assert card.memory.capacity_gib == pytest.approx(24564 / 1024, abs=0.01)
    assert machine.pcie.gb_s == pytest.approx(31.51, abs=0.01)
    [kernel] = cpu.kernels
    assert (cpu.cores, kernel.name, memory.measured_gb_s) == (32, "AVX-512", 380.0)
    assert cpu.rate_tflops([1, 500]).tolist() == [2.0, 2.0]


@pytest.mark.parametrize("system", [WORKSTATION, CLOUD])
def test_every_number_has_its_source(system: Probe) -> None:
    """Nothing is in the file without a word on where it is from."""
    machine = detect_machine(system=system)
    for row in machine_rows(machine):
        assert row.source not in ("", "not stated"), row.field
    assert ("links.gpu0-numa0.gb_s" in machine.sources) == bool(machine.gpus)


def test_a_machine_without_a_gpu_says_so() -> None:
    """Neither GPU nor link; the measured bandwidth stands for the peak that nobody knows."""
    machine = detect_machine(name="cloud", system=CLOUD)
    assert (machine.gpus, machine.links) == ((), ())
    found = "no GPU was found (nvidia-smi, rocm-smi, torch)"
    assert machine.sources["devices"].startswith(found)
    [host] = machine.devices
    assert host.memory.gb_s == host.memory.measured_gb_s == 380.0
    assert machine.sources["devices.numa0.memory.gb_s"].endswith("the peak is not known")
    with pytest.raises(InputError, match="machine cloud: gpu: is missing"):
        machine.require("gpu")
    with pytest.raises(InputError, match="machine cloud: gpu: is missing"):
        machine.pcie  # noqa: B018


def test_a_measured_gpu_is_a_fraction_of_the_vendors_peak(monkeypatch: pytest.MonkeyPatch) -> None:
    """120 of 165.2 TFLOPS and 900 of 1008 GB/s; the link is as measured."""
    monkeypatch.setattr(profile, "gpu_rates", lambda: GPU)
    machine = detect_machine(system=WORKSTATION)
    gpu = machine.require("gpu")
    compute = gpu.only("gpu")
    assert (compute.peak_tflops, float(compute.rate_tflops(1))) == (165.2, 120)
    assert gpu.memory.reached == pytest.approx(900 / 1008, abs=1e-4)
    assert (gpu.memory.gb_s, machine.pcie.gb_s) == (1008, 26.0)
    assert "900 GB/s of 1008" in machine.sources["devices.gpu0.memory.reached"]
    assert "120 TFLOPS of 165.2" in machine.sources["devices.gpu0.gpu.kernels"]


def test_an_unknown_gpu_is_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without vendor data its rates are the measured ones, reached in full."""
    monkeypatch.setattr(profile, "gpu_rates", lambda: GPU)
    system = fake({"lscpu": lscpu("x", 8), "nvidia-smi": "NVIDIA Z9, 8192, [N/A], [N/A]\n"})
    gpu = detect_machine(system=system).require("gpu")
    assert gpu.only("gpu").peak_tflops == float(gpu.only("gpu").rate_tflops(1)) == 120
    assert (gpu.memory.gb_s, gpu.memory.reached) == (900, 1)


def test_what_cannot_be_found_out_is_asked_for_in_one_line() -> None:
    """All of it, with units and where to find it; given, it is taken."""
    commands = {"lscpu": lscpu("x", 8), "nvidia-smi": "NVIDIA Z9, 8192, [N/A], [N/A]\n" * 2}
    with pytest.raises(InputError) as caught:
        detect_machine(measure=False, system=fake(commands))
    message = str(caught.value)
    both = ("devices.gpu{}.gpu.peak_tflops", "devices.gpu{}.memory.gb_s", "links.gpu{}-numa0.gb_s")
    needed = [path.format(gpu) for gpu in (0, 1) for path in both]
    needed += ["devices.numa0.cpu.tflops", "devices.numa0.memory.gb_s"]
    assert all(f"{field}: is missing (" in message for field in needed)
    assert message.count("is missing") == len(needed)
    first = "devices.numa0.cpu.tflops: is missing (curve, TFLOPS: "
    assert message.startswith(f"machine detect: {first}")
    assert message.endswith("what cannot be found out is given with --set")
    short = ("gpu.peak_tflops", "gpu.gb_s", "pcie.gb_s", "cpu.tflops", "dram.gb_s")
    for given in (dict.fromkeys(needed, 50), dict.fromkeys(short, 50)):
        machine = detect_machine(measure=False, changes=given, system=fake(commands))
        assert [gpu.only("gpu").peak_tflops for gpu in machine.gpus] == [50, 50]
        assert [float(gpu.only("gpu").rate_tflops(1)) for gpu in machine.gpus] == [30, 30]
        assert [link.gb_s for link in machine.links] == [50, 50]


@pytest.mark.parametrize("called", ["\x00", "a\nb", "x" * 10**5])
def test_a_name_that_cannot_be_is_one_line(called: str) -> None:
    """Of the machine, and of a card as its driver reports it."""
    said = refused(detect_machine, name=called, system=WORKSTATION)
    assert said.startswith("machine detect: name: ")


def test_without_measuring_a_known_cpu_has_the_vendors_data() -> None:
    """Half the cores of the part, all channels filled, on bare metal only."""
    machine = detect_machine(measure=False, system=fake({"lscpu": lscpu("AMD EPYC 9124", 16)}))
    assert machine.nodes[0].memory.gb_s == 460.8
    assert "assumed" in machine.sources["devices.numa0.memory.dimms.channels"]
    part, own = (
        float(one.require("cpu").only("cpu").rate_tflops(1))
        for one in (get_machine("epyc-9004"), machine)
    )
    assert own == pytest.approx(part / 2)
    virtual = fake({"lscpu": lscpu("AMD EPYC 9124", 16, virtual=True)})
    with pytest.raises(InputError, match=r"numa0\.memory\.gb_s: is missing"):
        detect_machine(measure=False, system=virtual)


@pytest.mark.parametrize(
    ("places", "channels"),
    [
        (TWELVE, 12),
        ([(f"P{s}_Node0_Channel{c}_Dimm0", "x") for s in (0, 1) for c in range(8)], 16),
        ([("", f"CPU{s}_DIMM_{c}{d}") for s in (1, 2) for c in "ABCDEFGH" for d in (1, 2)], 16),
        ([("", f"DIMM_{c}{d}") for c in "AB" for d in (1, 2)], 2),
        ([("P0 CHANNEL A", "DIMM 1"), ("P0 CHANNEL B", "DIMM 1")], 2),
        ([("BANK 0", "ChannelA-DIMM0"), ("BANK 2", "ChannelB-DIMM0")], 2),
        ([("Not Specified", "DIMM 0"), ("Not Specified", "DIMM 1")], 2),  # assumed: one each
    ],
)
def test_channels_are_read_from_the_dimms_locators(
    places: list[tuple[str, str]], channels: int
) -> None:
    """As several vendors write them; empty slots do not count."""
    found = memory_facts(fake({"dmidecode": dmidecode(places, empty=3)}))
    assert (found.dimms, found.channels, found.speed_mt_s) == (len(places), channels, 4800)
    named = "Not" not in places[0][0]
    assert found.channels_source.startswith("dmidecode" if named else "assumed")


@pytest.mark.parametrize("text", ["", "# dmidecode 3.5\n", dmidecode([("", "")], "Unknown")])
def test_dmidecode_that_tells_nothing_is_nothing(text: str) -> None:
    """Without a speed the nominal one counts; without that too there is nothing to say."""
    text = text.replace("Speed: 5600 MT/s", "Speed: Unknown")
    assert memory_facts(fake({"dmidecode": text})) is None


def test_two_sockets_of_a_cpu_with_amx() -> None:
    """Cores of both."""
    text = lscpu("Intel(R) Xeon(R) Gold 6454S", 32, sockets=2, flags="avx512f amx_tile")
    cpu = cpu_facts(fake({"lscpu": text}))
    assert (cpu.sockets, cpu.cores, cpu.kernel, cpu.cache_bytes) == (2, 64, "AMX", 2**28)
    machine = detect_machine(system=fake({"lscpu": text}))
    [both] = machine.nodes  # as one where the system tells of no nodes
    assert both.only("cpu").name == "2 x Intel(R) Xeon(R) Gold 6454S"
    assert both.memory.gb_s == 2 * 307.2


def test_without_lscpu_the_kernel_is_asked() -> None:
    """/proc/cpuinfo, a block for each thread."""
    block = (
        "processor\t: {}\nmodel name\t: Z\nphysical id\t: 0\ncpu cores\t: 2\nflags\t\t: avx2\n\n"
    )
    text = "".join(block.format(n) for n in range(4))
    cpu = cpu_facts(fake({}, {"/proc/cpuinfo": text}))
    assert (cpu.name, cpu.cores, cpu.kernel, cpu.source) == ("Z", 2, "AVX2", "/proc/cpuinfo")
    assert cpu_facts(fake({})) is None


def test_rocm_tells_name_and_memory() -> None:
    """Its JSON has a key for each card; a broken answer is none."""
    cards = {"card0": {"Card Series": "Radeon Z", "VRAM Total Memory (B)": str(24 * 2**30)}}
    found = gpu_facts(fake({"rocm-smi": json.dumps(cards)}))
    assert (found.name, found.memory_gib, found.source) == ("Radeon Z", 24.0, "rocm-smi")
    for text in ("{", "[]", '{"card0": 1}', "null"):
        assert gpu_facts(fake({"rocm-smi": text})) is None


def test_a_control_groups_limit_counts() -> None:
    """A container has what it may use, not what the host has."""
    files = {"/sys/fs/cgroup/memory.max": f"{2**33}\n", "/sys/fs/cgroup/memory.current": "1024\n"}
    limited = fake({}, files)
    size, source = memory_bytes(limited) or (0, "")
    assert size == 2**33
    assert "control group" in source
    assert free_bytes(limited) == 2**33 - 1024
    assert free_bytes(fake({})) == 390000000 * 1024


def test_a_command_that_is_not_there_is_no_answer() -> None:
    """Nor is one that fails, nor a file that cannot be read."""
    system = this_system()
    assert system.run(["no-such-command-at-all"]) is None
    assert system.run(["false"]) is None
    assert system.read("/no/such/file") is None


def test_the_command_writes_a_machine_that_can_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Asks nothing, prints a table, names the machine after the file."""
    monkeypatch.setattr(detect, "this_system", lambda: WORKSTATION)
    out = tmp_path / "mine.json"
    assert run(["machine", "detect", "--out", str(out)]) == 0
    machine = get_machine(out)
    assert machine == detect_machine(name="mine", system=WORKSTATION)
    table = capsys.readouterr().out
    assert "devices.numa0.memory.gb_s" in table
    assert run(["machine", "show", str(out)]) == 0
    assert capsys.readouterr().out == table
    assert run(["machine", "detect", "--out", str(tmp_path)]) == 2
    assert "is a folder" in capsys.readouterr().err


class Clock:
    """A clock that moves by an eighth of a second at every look."""

    now = 0.0

    def __call__(self) -> float:
        """Return the time in s."""
        self.now += 0.125
        return self.now


def test_the_read_bandwidth_is_that_of_the_best_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes of all threads over 0.125 s, a quarter of what is free, for a second."""
    monkeypatch.undo()
    sizes: list[int] = []
    ones = np.ones

    def counted(size: int, **kind: Any) -> Any:
        sizes.append(size)
        return ones(size, **kind)

    monkeypatch.setattr(profile.np, "ones", counted)
    rate = profile.read_bandwidth(2, 2**27, cache_bytes=2**25, clock=Clock())
    assert sizes == [2**21, 2**21]  # 8 bytes each: 2^25 in all
    assert rate.value == pytest.approx(2**25 / 0.125 / 1e9, abs=0.01)
    assert rate.source == (
        "measured: 2 threads summing 32 MiB, best of 4 passes; a cache of 32 MiB may have helped"
    )


def test_a_cpu_without_torch_is_measured_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """2 x 1024^3 operations in 0.125 s."""
    monkeypatch.undo()
    monkeypatch.setattr(profile, "optional_torch", lambda: None)
    monkeypatch.setattr(profile, "MATRIX", 256)
    rate = profile.cpu_tflops(clock=Clock())
    assert rate.value == pytest.approx(2 * 128**3 / 0.125 / 1e12, rel=1e-3)
    assert "torch is not installed" in rate.source
    assert profile.gpu_rates() is None


class FakeTensor:
    """What the measurement does with a tensor; every operation is done at once."""

    def __init__(self, size: int = 0) -> None:
        self.size = size

    def __matmul__(self, other: object) -> None:
        """Multiply nothing."""

    def __getitem__(self, part: slice) -> "FakeTensor":
        """Return the first numbers."""
        return FakeTensor(part.stop)

    def sum(self) -> None:
        """Read nothing."""

    def pin_memory(self) -> "FakeTensor":
        """Return itself."""
        return self

    def copy_(self, other: "FakeTensor", non_blocking: bool) -> None:
        """Copy nothing, of the right size."""
        assert (self.size, non_blocking) == (other.size, True)


def test_a_gpu_is_measured_with_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of 8192 x 8192, 1 GiB read, a quarter of it copied, 0.125 s each; 4 bytes each."""
    monkeypatch.undo()
    about = SimpleNamespace(name="NVIDIA Z9", total_memory=2**34)
    cuda = SimpleNamespace(
        is_available=lambda: True,
        get_device_properties=lambda _: about,
        mem_get_info=lambda _: (2**33, 2**34),
        synchronize=lambda: None,
    )
    made: list[Any] = []

    def ones(shape: Any, **_: Any) -> FakeTensor:
        made.append(shape)
        return FakeTensor(shape)

    kinds = {"bfloat16": 0, "float32": 1, "__version__": "9"}
    torch = SimpleNamespace(cuda=cuda, ones=ones, **kinds)
    monkeypatch.setattr(profile, "optional_torch", lambda: torch)
    rates = profile.gpu_rates(clock=Clock())
    assert (rates.name, rates.memory_gib) == ("NVIDIA Z9", 16.0)
    assert made == [(8192, 8192), 2**28, 2**26]
    assert rates.tflops.value == pytest.approx(2 * 8192**3 / 0.125 / 1e12, rel=1e-3)
    assert rates.read_gb_s.value == pytest.approx(2**30 / 0.125 / 1e9, abs=0.05)
    assert rates.from_host_gb_s.value == pytest.approx(2**28 / 0.125 / 1e9, abs=0.01)
    assert rates.from_host_gb_s.source.startswith("measured: copy of 256 MiB")


def test_a_machine_is_the_same_after_a_file(tmp_path: Path) -> None:
    """What is left out of the file is what is absent."""
    presets = [get_machine(name) for name in names("machines")]
    for machine in (detect_machine(system=CLOUD), get_machine("xeon-spr"), *presets):
        save(plain_machine(machine), tmp_path / "m.json")
        assert get_machine(tmp_path / "m.json") == machine
