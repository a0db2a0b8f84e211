"""``moeopt trace convert`` and ``dedupe``: what they print, write and refuse."""

import base64
import json
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from moeopt import InputError, load_trace
from tests.raising_cli import call


def run(*arguments: Any) -> Any:
    """Run a subcommand and return its result; errors come out as they are raised."""
    with redirect_stdout(StringIO()) as printed:
        code = call(["trace", *map(str, arguments)])
    return SimpleNamespace(return_value=code, stdout=printed.getvalue())


def test_a_trace_is_converted(tmp_path: Path) -> None:
    """From any format to npz, and said in one line."""
    source = tmp_path / "x.jsonl"
    routes = [(0, 0, [1, 0]), (0, 1, [1, 0]), (1, 0, [2, 3]), (1, 1, [0, 1])]
    keys = ("token_idx", "layer", "topk_ids")
    lines = [json.dumps(dict(zip(keys, route, strict=True))) for route in routes]
    source.write_text("\n".join(lines))
    result = run("convert", source, "--out", tmp_path / "x.npz")
    assert result.return_value == 0
    assert result.stdout == f"{tmp_path / 'x.npz'}: 2 tokens, 2 layers, top-2, 1 sequences\n"
    trace = load_trace(tmp_path / "x.npz")
    assert trace.topk_ids.tolist() == [[[1, 0], [1, 0]], [[2, 3], [0, 1]]]
    assert trace.facts["converted"]["format"] == "route-jsonl"


def two_turns(folder: Path) -> Path:
    """Return the file of a trace whose last 30 of 90 tokens are those from 10 on."""
    ids = np.arange(60, dtype=np.uint8).reshape(60, 1, 1)
    np.savez(folder / "turns.npz", topk_ids=np.concatenate([ids, ids[10:40]]), seq_len=[60, 30])
    return folder / "turns.npz"


def test_repeats_are_removed(tmp_path: Path) -> None:
    """Two lines for people; what is written has none left and says what it lacks."""
    source, out = two_turns(tmp_path), tmp_path / "once.npz"
    result = run("dedupe", source, "--out", out)
    assert result.return_value == 0
    assert result.stdout.splitlines() == [
        f"{source}: 30 of 90 tokens removed, in 1 runs",
        f"{out}: 60 tokens, 1 layers, top-1, 1 sequences",
    ]
    once = load_trace(out)
    assert once.topk_ids.ravel().tolist() == list(range(60))
    assert once.facts["converted"]["deduped"]["removed"] == 30


def test_removed_repeats_as_json(tmp_path: Path) -> None:
    """One object with every run; --min-run says what counts as one."""
    source, out = two_turns(tmp_path), tmp_path / "once.npz"
    assert json.loads(run("dedupe", source, "--out", out, "--json").stdout) == {
        "schema_version": 2,
        "name": f"{tmp_path.name}/turns.npz", "tokens": 90, "kept": 60, "min_run": 20,
        "runs": [{"start": 60, "length": 30, "first": 10}],
    }  # fmt: skip
    told = json.loads(run("dedupe", source, "--out", out, "--json", "--min-run", 31).stdout)
    assert (told["kept"], told["runs"]) == (90, [])


def test_format_and_experts_per_token_are_passed_on(tmp_path: Path) -> None:
    """For files that do not say."""
    source = tmp_path / "x.dat"
    ids = base64.b64encode(np.arange(8, dtype="<i4").tobytes()).decode()
    meta = {"routed_experts": ids, "prompt_tokens": 1, "completion_tokens": 2}
    source.write_text(json.dumps({"meta_info": meta}))
    options = ("--format", "routed-experts-json", "--top-k", 2)
    result = run("convert", source, "--out", tmp_path / "x.npz", *options)
    assert "2 tokens, 2 layers, top-2, 1 sequences" in result.stdout


def test_conversions_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """Counts, other suffixes, unknown formats."""
    source = tmp_path / "x.csv"
    source.write_text("0,0,1\n")
    with pytest.raises(InputError, match="count-csv holds counts only"):
        run("convert", source, "--out", tmp_path / "x.npz")
    with pytest.raises(InputError, match="format: 'excel' is unknown; known: "):
        run("convert", source, "--out", tmp_path / "x.npz", "--format", "excel")
    with pytest.raises(InputError, match=r"--out: .*x.json must end in .npz"):
        run("convert", two_turns(tmp_path), "--out", tmp_path / "x.json")
