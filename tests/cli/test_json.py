"""What ``--json`` prints, of every command, against the table on docs/json.md."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.test_help import LINES, OF_THE_MACHINE, folder  # noqa: F401
from tests.rooms.cli import run

WITHOUT = {*OF_THE_MACHINE, "machine fields", "compare"}

ON_ONE = "rtx4090+ryzen-am5 --model qwen3-30b-a3b --bits Q4_K_M"
ON_TWO = "2xrtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M --context 8k"
RUNS = [
    *((name, line.removeprefix("moeopt ")) for name, line in LINES.items() if name not in WITHOUT),
    ("compare", "compare --machine trimoe --model deepseek-v2-lite --workload trimoe-skew --batch 8"
     " --output 2 --layers 1 --systems trimoe,klotski,hybrimoe"),
    ("plan", f"plan --machine {ON_TWO}"),
    ("plan", "plan --model deepseek-v2-lite --ep-size 8 --counts counts.csv --work-limit 1"),
    ("predict", f"predict --machine {ON_TWO}"),
    ("predict", f"predict --machine rtx3090+ryzen-am5 --machine {ON_ONE}"),
    ("simulate", "simulate --machine trimoe --model deepseek-v2-lite --workload trimoe-skew"
     " --layers 2 --steps 2"),
    ("solve", "solve instance.json --method cp-sat"),
    *(("list", f"list {kind}") for kind in ("problems", "assumptions", "quantisations", "targets")),
]  # fmt: skip

KINDS = {
    "integer": int,
    "number": int | float,
    "text": str,
    "true or false": bool,
    "list": list,
    "object": dict,
    "null": type(None),
}


@pytest.fixture
def documented(root: Path) -> dict[tuple[str, str], str]:
    """Return (command, field) -> type, as the page has it."""
    found = {}
    for line in (root / "docs/json.md").read_text().splitlines():
        if line.startswith("| `"):
            field, kind, _, commands = (cell.strip() for cell in line.strip("|").split("|"))
            every = {*LINES} if commands == "all" else set(commands.replace("`", "").split(", "))
            found |= {(command, field.strip("`")): kind for command in every}
    return found


@pytest.mark.parametrize(("name", "line"), RUNS, ids=[line for _, line in RUNS])
def test_what_is_printed_is_documented(
    name: str,
    line: str,
    folder: Path,  # noqa: F811
    documented: dict[tuple[str, str], str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Field by field, with its type; numbers are no text."""
    monkeypatch.chdir(folder)
    assert run([*shlex.split(line), "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    for text in lines:
        record = json.loads(text, parse_constant=pytest.fail)
        assert record["schema_version"] == 2
        for field, value in record.items():
            kind = documented.get((name, field))
            assert kind is not None, f"{field} of {name} is not on docs/json.md"
            kinds = [one for one in KINDS if f" {one} " in f" {kind} "]
            fits = any(isinstance(value, KINDS[one]) for one in kinds)
            assert fits, f"{name}: {field} is {value!r}, not {kind}"
            assert isinstance(value, bool) == (kind == "true or false")
            if kind.startswith("list") and field in {"objective", "bound"} and value:
                assert all(isinstance(entry, int) for entry in value)
