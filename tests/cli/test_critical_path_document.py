"""The commands and the program of docs/critical-path.md print what the page says."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.rooms.cli import run


def test_the_page_on_critical_paths_does_what_it_says(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Word for word, beside the instances."""
    text = (root / "docs" / "critical-path.md").read_text()
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    said = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    [commands] = re.findall(r"```sh\n(.*?)```", text, re.DOTALL)
    for command in commands.splitlines():
        program, *arguments = shlex.split(command)
        capsys.readouterr()
        assert (program, run(arguments)) == ("moeopt", 0)
    assert capsys.readouterr().out == said[0]
    [source] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    Path("program.py").write_text(source)
    runpy.run_path("program.py", run_name="__main__")
    assert capsys.readouterr().out == said[1]
