"""The section on machines of docs/system.md: commands print what it says, its file is one."""

import json
import re
import shlex
from pathlib import Path

import pytest

import moeopt
from tests.rooms.cli import run

BLOCK = re.compile(r"```sh\n(.*?)```\n(?:\n```text\n(.*?)```)?", re.DOTALL)


def section(root: Path) -> str:
    """Return the section on machines."""
    text = (root / "docs" / "system.md").read_text()
    return text.partition("\n## Machine\n")[2].partition("\n## ")[0]


def test_the_machine_pages_commands_print_what_it_says(
    root: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each changes the fields that it names, and prints them."""
    monkeypatch.chdir(tmp_path)
    found = BLOCK.findall(section(root))
    assert len(found) > 2
    for command, said in found:
        assert run(shlex.split(command)[1:]) == 0
        printed = capsys.readouterr().out
        assert not said or printed == said


def test_the_machine_pages_file_is_one(root: Path, tmp_path: Path) -> None:
    """It is the machine of parts that the page names, but for what the page leaves out."""
    text = re.search(r"```json\n(.*?)```", section(root), re.DOTALL)
    assert text is not None
    file = tmp_path / "mine.json"
    file.write_text(json.dumps(json.loads(text[1])))
    made, parts = moeopt.get_machine(file), moeopt.get_machine("rtx4090+epyc-9004")
    assert [device.id for device in made.devices] == [device.id for device in parts.devices]
    for device, part in zip(made.devices, parts.devices, strict=True):
        assert device.memory.read_gb_s == pytest.approx(part.memory.read_gb_s)
    assert made.pcie == parts.pcie
