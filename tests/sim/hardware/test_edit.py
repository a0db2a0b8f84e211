"""Changing machines and showing them."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, get_machine, set_machine
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.sim import (
    RENAMED,
    Curve,
    absent_fields,
    changed_machine,
    cores_of,
    every_path,
    full_paths,
    get_model,
    machine_rows,
    short_fields,
    step_costs,
)
from tests.rooms.sim import preset_names as names

MINE = get_machine("rtx4090+epyc-9004")


HOST, GPU = "devices.numa0", "devices.gpu0"


def test_fields_are_set_with_their_source() -> None:
    """And nothing else changes."""
    fields = {"dram.measured_gb_s": 380, "gpu.gb_s": 1010.5}
    changed = set_machine(MINE, fields, source="STREAM")
    assert changed.require("cpu").memory.measured_gb_s == 380
    measured, peak = f"{HOST}.memory.measured_gb_s", f"{GPU}.memory.gb_s"
    assert changed.sources[measured] == changed.sources[peak] == "STREAM"
    assert changed.require("cpu").memory.reached is None  # a measurement stands for it
    undone = {"dram.measured_gb_s": None, "gpu.gb_s": 1008, "dram.reached": 0.8}
    back = set_machine(changed, undone, source=MINE.sources[peak])
    assert back.devices == MINE.devices
    assert back.sources | {f"{HOST}.memory.reached": ""} == MINE.sources | {
        f"{HOST}.memory.reached": ""
    }


def test_a_measured_bandwidth_is_what_the_cpu_reads_at() -> None:
    """Instead of peak x share; localized experts lie on one DIMM all the same."""
    model = get_model("mixtral-8x7b")
    before, after = MINE, set_machine(MINE, {"dram.measured_gb_s": 380})
    assert step_costs(before, model).cpu_read_s("striped") == pytest.approx(
        model.expert_bytes / (460.8e9 * 0.8)
    )
    assert step_costs(after, model).cpu_read_s("striped") == pytest.approx(
        model.expert_bytes / 380e9
    )
    localized = [step_costs(machine, model).cpu_read_s("localized") for machine in (before, after)]
    assert localized == [
        pytest.approx(model.expert_bytes / (38.4e9 * 0.8)),
        pytest.approx(model.expert_bytes / 38.4e9),
    ]


def test_the_peak_follows_channels_and_speed() -> None:
    """Eight channels of DDR5-4000: 256 GB/s; not where the peak is given too."""
    changes: dict[str, object] = {"dram.channels": 8, "dram.speed_mt_s": 4000}
    changed = set_machine(MINE, changes)
    memory = changed.require("cpu").memory
    assert memory.dimms is not None
    assert (memory.gb_s, memory.dimms.one_gb_s) == (256, 32)
    assert changed.sources[f"{HOST}.memory.gb_s"] == "8 channels x 4000 MT/s x 8 B"
    given = set_machine(MINE, changes | {"dram.gb_s": 250})
    assert given.require("cpu").memory.gb_s == 250
    larger = set_machine(MINE, {"dram.capacity_gib": 384})
    assert larger.require("cpu").memory.gb_s == 460.8


def test_what_is_not_both_stated_is_followed_in_proportion() -> None:
    """TriMoE states channels and no speed: half of them give half of the peak."""
    machine = get_machine("trimoe")
    changed = changed_machine(machine, {"dram.channels": 4})
    assert dict(changed.values) == {
        f"{HOST}.memory.dimms.channels": 4,
        f"{HOST}.memory.gb_s": 153.6,
    }
    memory = changed.machine.require("cpu").memory
    assert memory.dimms is not None
    assert (memory.gb_s, memory.dimms.one_gb_s) == (153.6, 38.4)
    assert changed.machine.sources[f"{HOST}.memory.gb_s"] == "4 of 8 channels"
    now_both = set_machine(machine, {"dram.speed_mt_s": 2400})
    assert now_both.require("cpu").memory.gb_s == 153.6
    assert now_both.dimm_link == machine.dimm_link


def test_everything_that_follows_is_told() -> None:
    """The field that was asked for, on every node, and those that follow it."""
    changed = changed_machine(get_machine("rtx4090+2xepyc-9004"), {"dram.speed_mt_s": 4000})
    nodes = ("devices.numa0.memory", "devices.numa1.memory")
    assert dict(changed.values) == {
        f"{node}.{name}": value
        for node in nodes
        for name, value in (("dimms.speed_mt_s", 4000), ("gb_s", 384), ("dimms.one_gb_s", 32))
    }
    one = changed_machine(changed.machine, {f"{nodes[1]}.gb_s": 100})
    assert dict(one.values) == {f"{nodes[1]}.gb_s": 100}
    assert [node.memory.gb_s for node in one.machine.nodes] == [384, 100]


def test_sources_of_single_fields_go_before_that_of_all() -> None:
    """As `changes` calls them."""
    fields = {"dram.capacity_gib": 64, "cpu.kernel_us": 3}
    said = {"dram.capacity_gib": "dmidecode"}
    found = changed_machine(MINE, fields, source="mine", sources=said).machine.sources
    assert found[f"{HOST}.memory.capacity_gib"] == "dmidecode"
    assert found[f"{HOST}.cpu.kernel_us"] == "mine"


@pytest.mark.parametrize(
    ("path", "full"),
    [
        ("dram.gb_s", ["numa0.memory.gb_s", "numa1.memory.gb_s"]),
        ("dram.count", ["numa0.memory.dimms.count", "numa1.memory.dimms.count"]),
        ("dram.link.gb_s", ["numa0.memory.dimms.link.gb_s", "numa1.memory.dimms.link.gb_s"]),
        ("dram.attention_reached", []),
        ("cpu.cores", ["numa0.cpu.cores", "numa1.cpu.cores"]),
        ("cpu.tflops", ["numa0.cpu.tflops", "numa1.cpu.tflops"]),
        ("cpu.peak_tflops", []),
        ("gpu.peak_tflops", ["gpu0.gpu.peak_tflops", "gpu1.gpu.peak_tflops"]),
        ("gpu.capacity_gib", ["gpu0.memory.capacity_gib", "gpu1.memory.capacity_gib"]),
        ("gpu.attention_reached", [f"gpu{n}.memory.attention_reached" for n in range(2)]),
        ("gpu.cores", []),
        ("gpu.kind", []),
        ("ndp.units", []),
        ("ndp.nothing", []),
    ],
)
def test_a_short_name_means_that_field_of_every_such_device(path: str, full: list[str]) -> None:
    """Two GPUs and two nodes; none where no such device has such a field."""
    machine = get_machine("2xrtx3090+2xepyc-7002")
    assert full_paths(machine, path) == [f"devices.{one}" for one in full]


def test_links_have_short_names_by_what_they_are_between() -> None:
    """GPU to memory, and node to node; a link between GPUs is called by its ends alone."""
    machine = get_machine("2xrtx3090+2xepyc-7002")
    peer = machine.links[0].model_copy(update={"ends": ("gpu0", "gpu1"), "kind": "nvlink"})
    machine = machine.model_copy(update={"links": (*machine.links, peer)})
    ends = [f"gpu{gpu}-numa{node}" for gpu in range(2) for node in range(2)]
    assert full_paths(machine, "pcie.gb_s") == [f"links.{one}.gb_s" for one in ends]
    assert full_paths(machine, "socket.latency_us") == ["links.numa0-numa1.latency_us"]
    assert full_paths(machine, "links.gpu0-gpu1.gb_s") == ["links.gpu0-gpu1.gb_s"]
    assert full_paths(machine, "links.gpu1-gpu0.gb_s") == []
    assert full_paths(get_machine("cxl-ndp"), "pcie.gb_s") == ["links.gpu0-cxl0.gb_s"]
    assert full_paths(get_machine("cxl-ndp"), "dram.gb_s") == ["devices.cxl0.memory.gb_s"]


@pytest.mark.parametrize("name", ["trimoe", "2xrtx3090+2xepyc-7002", "cxl-ndp", "m3-max"])
def test_every_short_name_leads_to_paths_that_exist(name: str) -> None:
    """A full path leads to itself, and each can be set or says why not."""
    machine = get_machine(name)
    paths = every_path(machine)
    assert len(paths) == len(set(paths))
    for path in paths:
        found = full_paths(machine, path)
        assert found, path
        assert all(full_paths(machine, one) == [one] for one in found), path


@pytest.mark.parametrize(
    "path",
    [
        *("devices", "devices.gpu0", "devices.gpu0.memory", "devices.gpu1.memory.gb_s", "gpu"),
        *("devices.gpu0.cpu.cores", "devices.gpu0.gpu.cores", "devices.gpu0.gpu.kind", "links"),
        *("devices.numa0.memory.dimms", "devices.numa0.memory.dimms.link.x", "devices.gpu0.id"),
        *("links.gpu0-numa0", "links.gpu0-numa0.kind", "links.gpu0-numa1.gb_s", "sources", ""),
        *("schema_version", "dram", "dram.", ".gb_s", "devices.numa0.memory.dimms.count.x"),
    ],
)
def test_what_is_no_field_leads_nowhere(path: str) -> None:
    """Parts, other devices' fields, and fields of fields; setting one is refused in one line."""
    assert full_paths(MINE, path) == []
    said = refused(set_machine, MINE, {path: 3})
    assert f"{path}: " in said
    assert "\n" not in said


def test_a_number_makes_a_flat_curve() -> None:
    """A curve as in a file is taken as well; kernels of few tokens stay."""

    def main(value: object) -> Curve:
        changed = set_machine(MINE, {"cpu.tflops": value})
        assert changed.sources[f"{HOST}.cpu.kernels"].startswith("given by the user")
        return changed.require("cpu").only("cpu").kernels[-1].tflops

    assert main(2)([1, 99]).tolist() == [2, 2]
    curve = {"scale": "linear", "points": [[0, 0.0], [10, 5.0]]}
    assert main(curve)(5) == 2.5
    amx = get_machine("xeon-spr")
    few, _ = set_machine(amx, {"cpu.tflops": 9}).require("cpu").only("cpu").kernels
    assert few == amx.require("cpu").only("cpu").kernels[0]


def test_without_its_gpu_a_machine_has_no_link_either() -> None:
    """`gpu` takes all of it."""
    bare = set_machine(MINE, {"gpu": None})
    assert bare == get_machine("epyc-9004").model_copy(
        update={"name": MINE.name, "sources": bare.sources}
    )
    assert not any(key.startswith((GPU, "links")) for key in bare.sources)
    assert bare.sources["devices"] == "no GPU: given by the user (moeopt machine set)"
    shared = set_machine(get_machine("m3-max"), {"gpu": None})
    assert [device.id for device in shared.devices] == ["soc0"]
    assert not any("soc0.gpu" in key for key in shared.sources)


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """With what would be right."""
    wrong: dict[str, Any] = {
        "dram.measured_gbs": 3,
        "gpu.gb_s": -2,
        "dram.count": None,
        "kernel_us": 24,
        "gpu.hbm_gb": 24,
        "dram.speed": 4800,
        "cpu.tflops": "fast",
        "sources.name": "x",
        "gpu.kernels": [],
        "pcie.gb_s": None,
        "cpu": 3,
        "ndp.units": 2,
        "socket.gb_s": 9,
        "sync_us": -1,
    }
    with pytest.raises(InputError) as caught:
        set_machine(MINE, wrong)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "machine rtx4090+epyc-9004: dram.measured_gbs: is not a known key; did you mean"
        " dram.measured_gb_s",
        "kernel_us: is not a known key; did you mean gpu.kernel_us",
        "gpu.hbm_gb: is called gpu.capacity_gib by now",
        "dram.speed: is not a known key; did you mean dram.speed_mt_s",
        "devices.gpu0.memory.gb_s: must be more than 0.0, not -2 (number, GB/s: peak bandwidth",
        "devices.numa0.memory.dimms.count: is missing (integer: how many DIMMs; `dmidecode -t mem",
        "cpu: is not a known key",
        "sources.name: cannot be set here",
        "devices.gpu0.gpu.kernels: tuple should have at least 1 item",
        "links.gpu0-numa0.gb_s: is missing (number, GB/s: ",
        "ndp.units: there is no ndp on this machine",
        "socket.gb_s: there is no link of that kind on this machine",
        "devices.numa0.cpu.kernels[0].tflops: ",
        "sync_us: must be at least 0.0, not -1",
    ):
        assert part in message, part
    assert "devices: tuple" not in message  # of a list none of whose items is right


@pytest.mark.parametrize("old", RENAMED)
def test_old_names_are_refused_with_the_new_one(old: str) -> None:
    """The error has the new name as its suggestion, too; it is a short name that exists."""
    new = RENAMED[old]
    with pytest.raises(InputError, match=f"{old}: is called {new} by now") as caught:
        set_machine(MINE, {old: 3})
    assert caught.value.suggestion == new
    short, _, rest = new.partition(".")
    assert rest in short_fields(short)


@pytest.mark.parametrize(
    ("path", "over"),
    [
        ("dram.speed_mt_s", "dram.measured_gb_s"),
        ("dram.channels", "dram.measured_gb_s"),
        ("dram.gb_s", "dram.measured_gb_s"),
        ("gpu.gb_s", "gpu.measured_gb_s"),
    ],
)
def test_a_field_that_another_one_overrides_is_refused(path: str, over: str) -> None:
    """A measured bandwidth wins; what would change nothing is not taken."""
    measured = set_machine(MINE, {over: 300})
    [full], [winner] = full_paths(MINE, path), full_paths(MINE, over)
    assert refused(set_machine, measured, {path: 6}) == (
        f"machine {MINE.name}: {full}: has no effect beside {winner}: change that, or take it out"
        f" with {winner}=null as well"
    )
    assert set_machine(measured, {path: 6, over: None}) == set_machine(MINE, {path: 6}).model_copy(
        update={"devices": set_machine(measured, {path: 6, over: None}).devices}
        | {"sources": set_machine(measured, {path: 6, over: None}).sources}
    )
    assert set_machine(measured, {path: 6, over: 200})


@pytest.mark.parametrize("name", [*names("machines"), "rtx4090+epyc-9004", "xeon-spr"])
def test_a_table_has_every_field_once(name: str) -> None:
    """Numbers with the unit that the schema gives them; what is absent is listed."""
    machine = get_machine(name)
    rows = machine_rows(machine)
    fields = [row.field for row in rows]
    assert len(fields) == len(set(fields))
    assert not set(fields) & set(absent_fields(machine))
    units = {row.field: row.unit for row in rows}
    for device in machine.devices:
        assert units[f"devices.{device.id}.memory.gb_s"] == "GB/s"
        for compute in device.computes:
            assert units[f"devices.{device.id}.{compute.kind}.kernels"] == "TFLOPS"
    assert ("gpu" in fields) == (not machine.gpus)


def test_kernels_are_one_field_with_one_source() -> None:
    """Each by name, up to how many tokens, and what it reaches."""
    rows = {row.field: row for row in machine_rows(get_machine("ktransformers-a100"))}
    kernels = rows["devices.numa1.cpu.kernels"]
    assert kernels.text == "AVX-512 up to 4 tokens 6; AMX 0: 0, 16: 21.3 (linear)"
    assert "KTransformers 3.2: AVX-512 faster at four" in kernels.source
    rows = {row.field: row for row in machine_rows(get_machine("xeon-spr"))}
    assert "KTransformers 3.2" in rows["devices.numa0.cpu.kernels"].source
    assert rows["gpu"].text == "none"


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Change a preset into a file, change the file in place, show it as JSON."""
    monkeypatch.chdir(tmp_path)
    new = ["machine", "set", "rtx4090+epyc-9004", "dram.capacity_gib=384", "--out", "m.json"]
    assert run(new) == 0
    assert run(["machine", "set", "m.json", "cpu.name=Mine", "--source", "its box"]) == 0
    assert run(["machine", "set", "m.json", "dram.measured_gb_s=300.5"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"{HOST}.memory.capacity_gib: 384 GiB",
        f"{HOST}.cpu.name: Mine",
        f"{HOST}.memory.measured_gb_s: 300.5 GB/s",
        f"{HOST}.memory.reached: taken out",
    ]
    assert run(["machine", "show", "m.json", "--json"]) == 0
    rows = {row["field"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["name"]["value"] == "m"
    assert rows[f"{HOST}.memory.capacity_gib"]["value"] == 384
    assert rows[f"{HOST}.cpu.name"] == {
        "schema_version": 2,
        "field": f"{HOST}.cpu.name",
        "value": "Mine",
        "unit": "",
        "source": "its box",
    }
    assert rows[f"{HOST}.memory.measured_gb_s"]["unit"] == "GB/s"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("machine set trimoe pcie.gb_s=3", "--out: is missing: 'trimoe' is not a file"),
        ("machine set trimoe pcie.gb_s --out m.json", "must be as in dram.capacity_gib=256"),
        ("machine show rtx+epyc", "no GPU is called 'rtx'; did you mean rtx"),
        ("machine set trimoe pcie.gb_s=3 --out no/m.json", "there is no folder"),
        ("machine set trimoe pcie.gb_s=3 pcie.gb_s=4 --out m.json", "pcie.gb_s is given twice"),
        (f"machine set a100+xeon-spr dram.channels={10**400} --out m.json", "dimms.channels: must"),
        ("machine set trimoe gpu.utilization=60 --out m.json", "is called gpu.tflops by now"),
        (f"machine set a100+xeon-spr cpu.cores={10**400} --out m.json", "cpu.cores: must"),
        ("machine set trimoe dram.channels=-4 --out m.json", "dimms.channels: must be at least 1"),
        ("machine set a100+xeon-spr cpu.cores=0 --out m.json", "cpu.cores: must be at least 1"),
        (
            "machine set trimoe gpu.name=a\x1b[31m --out m.json",
            "devices.gpu0.gpu.name: must have no control",
        ),
        (f"machine show {'x' * 5000}", "x...' is neither a file nor one of cxl-ndp"),
        (f"machine show {'x' * 5000}+y", "x...' (moeopt list gpus); no host"),
    ],
)
def test_the_commands_refuse_in_one_line(
    command: str,
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Exit code 2, and nothing is written."""
    monkeypatch.chdir(tmp_path)
    assert run(command.split()) == 2
    told = capsys.readouterr()
    assert says in told.err
    assert (told.out, told.err.count("\n"), list(tmp_path.iterdir())) == ("", 1, [])


def test_kernels_follow_the_cores_and_sockets() -> None:
    """All kernels of the CPU: half of the cores, half of the rate; two sockets, twice."""
    one = get_machine("rtx4090d+xeon-spr")
    both = cores_of(get_machine("rtx4090d+2xxeon-spr"), "tensor-parallel")
    half = set_machine(one, {"cpu.cores": 16})
    for tokens in (1, 64):
        rate = float(cores_of(one, "isolate").rate_tflops(tokens))
        assert float(both.rate_tflops(tokens)) == pytest.approx(2 * rate)
        assert float(cores_of(half, "isolate").rate_tflops(tokens)) == pytest.approx(rate / 2)
    assert half.sources[f"{HOST}.cpu.kernels"].startswith("16 of 32 cores of: ")
    said = set_machine(one, {"cpu.cores": 16, "cpu.tflops": 3.0})
    assert float(cores_of(said, "isolate").rate_tflops(64)) == 3.0


def test_kernels_follow_the_peak_of_a_gpu() -> None:
    """A GPU of twice the peak reaches twice as much; not where its kernels are given."""
    before = MINE.require("gpu").only("gpu")
    peak = 2 * (before.peak_tflops or 0)
    changed = set_machine(MINE, {"gpu.peak_tflops": peak})
    rate = float(before.rate_tflops(1))
    assert float(changed.require("gpu").only("gpu").rate_tflops(1)) == pytest.approx(2 * rate)
    assert changed.sources[f"{GPU}.gpu.kernels"].startswith(f"{peak:g} of {peak / 2:g} peak_tflops")
    given = set_machine(MINE, {"gpu.peak_tflops": peak, f"{GPU}.gpu.tflops": 7})
    assert float(given.require("gpu").only("gpu").rate_tflops(1)) == 7


@pytest.mark.parametrize(("name", "each"), [("rtx4090+epyc-9004", 400.0), ("2xepyc-9004", 200.0)])
def test_triad_is_converted(name: str, each: float) -> None:
    """4/3 of what STREAM prints of the whole host, shared out over its nodes; sources say so."""
    machine = set_machine(get_machine(name), {"dram.triad_gb_s": 300})
    for node in machine.nodes:
        assert node.memory.read_gb_s == each
        said = machine.sources[f"devices.{node.id}.memory.measured_gb_s"]
        assert said.startswith("STREAM Triad 300 GB/s")
        assert "4/3 of it" in said
    with pytest.raises(InputError, match=r"dram\.triad_gb_s: must be GB/s, as in"):
        set_machine(machine, {"dram.triad_gb_s": "fast"})
