"""Changing machines and showing them."""

import json
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, get_machine, set_machine
from tests.rooms.cli import run
from tests.rooms.sim import absent_fields, cpu_read_s, get_model, machine_rows
from tests.rooms.sim import preset_names as names

MINE = get_machine("rtx4090+epyc-9004")


def test_fields_are_set_with_their_source() -> None:
    """And nothing else changes."""
    changed = set_machine(
        MINE, {"cpu.bandwidth_gb_s": 380, "gpu.hbm_gb_s": 1010.5}, source="STREAM"
    )
    assert changed.require_cpu().bandwidth_gb_s == 380
    assert changed.sources["gpu.hbm_gb_s"] == changed.sources["cpu.bandwidth_gb_s"] == "STREAM"
    undone = {"cpu.bandwidth_gb_s": None, "gpu.hbm_gb_s": 1008}
    back = set_machine(changed, undone, source=MINE.sources["gpu.hbm_gb_s"])
    assert back == MINE


def test_a_measured_bandwidth_is_what_the_cpu_reads_at() -> None:
    """Instead of peak x efficiency; localized experts lie on one DIMM all the same."""
    model = get_model("mixtral-8x7b")
    before, after = MINE, set_machine(MINE, {"cpu.bandwidth_gb_s": 380})
    assert cpu_read_s(before, model, "striped") == pytest.approx(
        model.expert_bytes / (460.8e9 * 0.8)
    )
    assert cpu_read_s(after, model, "striped") == pytest.approx(model.expert_bytes / 380e9)
    localized = [cpu_read_s(machine, model, "localized") for machine in (before, after)]
    assert localized[0] == localized[1]


def test_the_peak_follows_channels_and_speed() -> None:
    """Eight channels of DDR5-4000: 256 GB/s; not where the peak is given too."""
    changes: dict[str, object] = {"dram.channels": 8, "dram.speed_mt_s": 4000}
    changed = set_machine(MINE, changes)
    assert (changed.dram.striped_gb_s, changed.dram.localized_gb_s) == (256, 32)
    assert changed.sources["dram.striped_gb_s"] == "8 channels x 4000 MT/s x 8 B"
    assert set_machine(MINE, changes | {"dram.striped_gb_s": 250}).dram.striped_gb_s == 250
    assert set_machine(MINE, {"dram.capacity_gb": 384}).dram.striped_gb_s == 460.8


def test_a_number_makes_a_flat_curve() -> None:
    """A curve as in a file is taken as well."""
    assert set_machine(MINE, {"cpu.tflops": 2}).require_cpu().tflops([1, 99]).tolist() == [2, 2]
    curve = {"scale": "linear", "points": [[0, 0.0], [10, 5.0]]}
    assert set_machine(MINE, {"cpu.tflops": curve}).require_cpu().tflops(5) == 2.5


def test_without_its_gpu_a_machine_has_no_link_either() -> None:
    """`gpu` takes all of it."""
    assert set_machine(MINE, {"gpu": None}) == set_machine(
        get_machine("epyc-9004"), {"name": MINE.name, "gpu": None}
    ).model_copy(update={"sources": set_machine(MINE, {"gpu": None}).sources})
    assert not any(
        key.startswith(("gpu.", "pcie")) for key in set_machine(MINE, {"gpu": None}).sources
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    """With what would be right."""
    wrong: dict[str, Any] = {
        "cpu.bandwith_gb_s": 3,
        "gpu.hbm_gb_s": -2,
        "dram.dimms": None,
        "hbm_gb": 24,
        "dram.speed": 4800,
        "cpu.tflops": "fast",
        "sources.name": "x",
        "cpu.few_token_kernels": [],
        "pcie_gb_s": None,
        "cpu": 3,
    }
    with pytest.raises(InputError) as caught:
        set_machine(MINE, wrong)
    message = str(caught.value)
    assert "\n" not in message
    for part in (
        "machine rtx4090+epyc-9004: cpu.bandwith_gb_s: is not a known key; did you mean"
        " cpu.bandwidth_gb_s?",
        "hbm_gb: is not a known key; did you mean gpu.hbm_gb?",
        "dram.speed: is not a known key; did you mean dram.speed_mt_s?",
        "gpu.hbm_gb_s: must be more than 0.0, not -2 (number, GB/s: peak bandwidth",
        "dram.dimms: is missing (integer: how many DIMMs; `dmidecode -t memory`",
        "cpu: must be an object, not 3",
        "sources.name: cannot be set here",
        "cpu.few_token_kernels: is a list: write it in the file",
        "pcie_gb_s: is missing (number, GB/s: ",
    ):
        assert part in message, part


@pytest.mark.parametrize("name", [*names("machines"), "rtx4090+epyc-9004", "xeon-spr"])
def test_a_table_has_every_field_once(name: str) -> None:
    """Numbers with the unit that the schema gives them; what is absent is listed."""
    machine = get_machine(name)
    rows = machine_rows(machine)
    fields = [row.field for row in rows]
    assert len(fields) == len(set(fields))
    assert not set(fields) & set(absent_fields(machine))
    units = {row.field: row.unit for row in rows}
    assert (units["dram.striped_gb_s"], units["cpu.tflops"] if machine.cpu else "TFLOPS") == (
        "GB/s",
        "TFLOPS",
    )
    assert ("gpu" in fields) == (machine.gpu is None)


def test_a_field_of_a_listed_kernel_has_its_own_source() -> None:
    """Or that of what it is in."""
    rows = {row.field: row for row in machine_rows(get_machine("ktransformers-a100"))}
    kernel = rows["cpu.few_token_kernels[0].max_tokens"]
    assert (kernel.value, kernel.unit) == (4, "tokens")
    assert kernel.source.startswith("KTransformers 3.2: AVX-512 faster at four")
    rows = {row.field: row for row in machine_rows(get_machine("xeon-spr"))}
    assert rows["cpu.few_token_kernels[0].tflops"].source.startswith("KTransformers 3.2")
    assert rows["gpu"].text == "none"


def test_the_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Change a preset into a file, change the file in place, show it as JSON."""
    monkeypatch.chdir(tmp_path)
    new = ["machine", "set", "rtx4090+epyc-9004", "dram.capacity_gb=384", "--out", "m.json"]
    assert run(new) == 0
    assert run(["machine", "set", "m.json", "cpu.name=Mine", "--source", "its box"]) == 0
    assert run(["machine", "set", "m.json", "cpu.bandwidth_gb_s=300.5"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["machine", "show", "m.json", "--json"]) == 0
    rows = {row["field"]: row for row in map(json.loads, capsys.readouterr().out.splitlines())}
    assert rows["name"]["value"] == "m"
    assert rows["dram.capacity_gb"]["value"] == 384
    assert rows["cpu.name"] == {
        "schema_version": 2,
        "field": "cpu.name",
        "value": "Mine",
        "unit": "",
        "source": "its box",
    }
    assert rows["cpu.bandwidth_gb_s"]["unit"] == "GB/s"


@pytest.mark.parametrize(
    ("command", "says"),
    [
        ("machine set trimoe pcie_gb_s=3", "--out: is missing: 'trimoe' is not a file"),
        ("machine set trimoe pcie_gb_s --out m.json", "must be as in cpu.bandwidth_gb_s=80"),
        ("machine show rtx+epyc", "no GPU is called 'rtx'; did you mean rtx"),
        ("machine set trimoe pcie_gb_s=3 --out no/m.json", "there is no folder"),
        ("machine set trimoe pcie_gb_s=3 pcie_gb_s=4 --out m.json", "pcie_gb_s is given twice"),
        (f"machine set a100+xeon-spr dram.channels={10**400} --out m.json", "dram.channels: must"),
        ("machine set trimoe gpu.utilization=60 --out m.json", "must be a fraction of peak_tflops"),
        ("machine set trimoe gpu.name=a\x1b[31m --out m.json", "gpu.name: must have no control"),
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


def test_kernels_follow_the_threads_and_sockets() -> None:
    """All kernels of the CPU: half of the threads, half of the rate; two sockets, twice."""
    one = get_machine("rtx4090d+xeon-spr").cpu
    both = get_machine("rtx4090d+2xxeon-spr").cpu
    half = set_machine(get_machine("rtx4090d+xeon-spr"), {"cpu.threads": 16})
    for tokens in (1, 64):
        rate = float(one.rate_tflops(tokens))
        assert float(both.rate_tflops(tokens)) == pytest.approx(2 * rate)
        assert float(half.cpu.rate_tflops(tokens)) == pytest.approx(rate / 2)
    assert half.sources["cpu.tflops"].startswith("16 of 32 threads of: ")
    said = set_machine(get_machine("rtx4090d+xeon-spr"), {"cpu.threads": 16, "cpu.tflops": 3.0})
    assert float(said.cpu.tflops(64)) == 3.0
