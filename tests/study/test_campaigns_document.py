"""docs/campaigns.md: every example runs, and prints what the page says."""

import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.rooms.cli import run
from tests.rooms.study import Settings, read_campaign
from tests.test_documents import PYTHON, SHELL

TOML = re.compile(r"```toml\n(.*?)```", re.DOTALL)
OPTIONS = re.compile(r"`moeopt (gap instances.*?)`", re.DOTALL)


@pytest.fixture
def page(root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the page; the current folder has the instances in it."""
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    return (root / "docs" / "campaigns.md").read_text()


def test_the_commands_run(page: str, capsys: pytest.CaptureFixture[str]) -> None:
    """The campaign, then the store alone, then the same as options: one table."""
    Path("campaign.toml").write_text(TOML.findall(page)[0])
    tables = []
    for command in SHELL.findall(page):
        assert run(shlex.split(command)[1:]) == 0
        tables.append(capsys.readouterr().out)
    [options] = OPTIONS.findall(page)
    assert run([*shlex.split(options), "--markdown"]) == 0
    tables.append(capsys.readouterr().out)
    assert len(tables) == 3
    assert tables[0] == tables[1] == tables[2]
    assert Path("results.csv").is_file()
    assert Path("results.parquet").is_file()


def test_the_campaigns_can_be_read(page: str) -> None:
    """Both of them."""
    for text in TOML.findall(page):
        Path("campaign.toml").write_text(text)
        for part in read_campaign(Path("campaign.toml")).parts:
            assert all(Path(source).exists() for source in part.sources)


def test_the_table_has_every_key(page: str) -> None:
    """And no other."""
    keys = re.findall(r"^\| `(\w+)` \|", page.partition("## Work limits")[0], re.MULTILINE)
    settings = [field.alias or name for name, field in Settings.model_fields.items()]
    assert keys == ["campaign", "instances", *settings]


@pytest.mark.slow
def test_the_program_prints_what_the_page_says(
    page: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Run as it stands, as the main program's file."""
    [(source, expected)] = PYTHON.findall(page)
    Path("program.py").write_text(source)
    runpy.run_path(str(Path("program.py").resolve()), run_name="__main__")
    assert capsys.readouterr().out == expected
