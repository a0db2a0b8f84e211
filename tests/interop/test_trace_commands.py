"""``moeopt trace convert`` and ``record``: what they print, write and refuse."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from moeopt import InputError, load_trace
from tests.interop.refusals import refusal
from tests.refusals import refused
from tests.rooms.cli import convert_command, dedupe_command, record_command
from tests.rooms.sim import read_prompts

HAS_EXTRA = all(importlib.util.find_spec(name) for name in ("torch", "transformers"))
needs_extra = pytest.mark.skipif(not HAS_EXTRA, reason="the extra hf is not installed")

CONFIG = {
    "model_type": "mixtral", "vocab_size": 64, "hidden_size": 16, "intermediate_size": 16,
    "num_attention_heads": 2, "num_key_value_heads": 2, "num_hidden_layers": 2,
    "num_local_experts": 4, "num_experts_per_tok": 2, "eos_token_id": None,
}  # fmt: skip


def run(*arguments: Any) -> Any:
    """Run a subcommand and return its result; errors come out as they are raised."""
    app = typer.Typer()
    app.command("convert")(convert_command)
    app.command("record")(record_command)
    app.command("dedupe")(dedupe_command)
    result = CliRunner().invoke(app, [str(a) for a in arguments], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


def test_a_trace_is_converted(tmp_path: Path) -> None:
    """From any format to npz, and said in one line."""
    source = tmp_path / "x.json"
    source.write_text('{"0": [[1, 0], [2, 3]], "1": [[1, 0], [0, 1]]}')
    result = run("convert", source, "--out", tmp_path / "x.npz")
    assert result.return_value == 0
    assert result.stdout == f"{tmp_path / 'x.npz'}: 2 tokens, 2 layers, top-2\n"
    trace = load_trace(tmp_path / "x.npz")
    assert trace.topk_ids.tolist() == [[[1, 0], [1, 0]], [[2, 3], [0, 1]]]
    assert trace.facts["converted"]["format"] == "hdmoe-json"


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
        "name": f"{tmp_path.name}/turns.npz", "tokens": 90, "kept": 60, "min_run": 20,
        "runs": [{"start": 60, "length": 30, "first": 10}],
    }  # fmt: skip
    told = json.loads(run("dedupe", source, "--out", out, "--json", "--min-run", 31).stdout)
    assert (told["kept"], told["runs"]) == (90, [])


def test_format_and_experts_per_token_are_passed_on(tmp_path: Path) -> None:
    """For files that do not say."""
    source = tmp_path / "x.dat"
    source.write_text("1\t2\t3\t4\t\t0.1\t0.1\t0.1\t0.1\n")
    options = ("--format", "esft-txt", "--top-k", 2)
    result = run("convert", source, "--out", tmp_path / "x.npz", *options)
    assert "2 tokens, 1 layers, top-2, 1 sequences" in result.stdout


def test_conversions_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """Counts, other suffixes, unknown formats."""
    source = tmp_path / "x.csv"
    source.write_text("0,0,1\n")
    with pytest.raises(InputError, match="count-csv holds counts only"):
        run("convert", source, "--out", tmp_path / "x.npz")
    with pytest.raises(InputError, match="format: 'excel' is unknown; known: "):
        run("convert", source, "--out", tmp_path / "x.npz", "--format", "excel")
    np.save(tmp_path / "x.npy", np.zeros((1, 1), dtype=np.int64))
    with pytest.raises(InputError, match=r"--out: .*x.json must end in .npz"):
        run("convert", tmp_path / "x.npy", "--out", tmp_path / "x.json")


def recorded(folder: Path, prompts: str, name: str = "prompts.jsonl", **config: Any) -> list[Any]:
    """Return the arguments of a recording with random weights."""
    (folder / "config.json").write_text(json.dumps(CONFIG | config))
    (folder / name).write_text(prompts)
    files = ["--model", folder / "config.json", "--prompts", folder / name]
    return ["record", *files, "--out", folder / "x.npz", "--max-new-tokens", 3]


def test_without_the_extra_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And how to get it."""
    monkeypatch.setitem(sys.modules, "torch", None)
    arguments = recorded(tmp_path, "[1, 2]\n")
    said = refused(run, *arguments, "--random-weights")
    assert said == "trace record: torch is missing: pip install 'moeopt[hf]'"


@needs_extra
def test_a_model_of_random_weights_is_recorded(tmp_path: Path) -> None:
    """The same seed gives the same trace, another one another."""
    arguments = recorded(tmp_path, "[1, 2, 3]\n[4, 5]\n")
    traces = []
    for seed in (0, 0, 1):
        result = run(*arguments, "--random-weights", "--seed", seed)
        assert "9 tokens, 2 layers, top-2, 2 sequences" in result.stdout
        traces.append(load_trace(tmp_path / "x.npz"))
    assert np.array_equal(traces[0].topk_ids, traces[1].topk_ids)
    assert not np.array_equal(traces[0].topk_ids, traces[2].topk_ids)
    assert traces[0].decode.tolist() == [False] * 3 + [True] * 2 + [False] * 2 + [True] * 2


@needs_extra
def test_a_saved_model_is_recorded(tmp_path: Path) -> None:
    """Its own weights, from its folder."""
    import torch
    import transformers

    torch.manual_seed(0)
    config = transformers.MixtralConfig(**{k: v for k, v in CONFIG.items() if k != "model_type"})
    transformers.AutoModelForCausalLM.from_config(config).save_pretrained(tmp_path / "model")
    arguments = recorded(tmp_path, "[1, 2, 3]\n")
    run(*arguments, "--random-weights")
    drawn = load_trace(tmp_path / "x.npz").topk_ids
    arguments[2] = tmp_path / "model"
    run(*arguments)
    assert np.array_equal(load_trace(tmp_path / "x.npz").topk_ids, drawn)


@needs_extra
def test_models_and_prompts_that_cannot_be_are_refused(tmp_path: Path) -> None:
    """One line each."""
    with pytest.raises(InputError, match="a config alone needs --random-weights"):
        run(*recorded(tmp_path, "[1, 2]\n"))
    for prompts, name, config, says in (
        ("[99]\n", "p.jsonl", {}, "token 99 in a vocabulary of 64"),
        ("Hello\n", "p.txt", {}, "has no tokenizer: give token ids"),
        ("[1]\n", "p.jsonl", {"model_type": "x"}, "cannot be loaded"),
        ("[1]\n", "p.jsonl", {"model_type": 7}, "model_type: must be a string, not 7"),
        ("[1]\n", "p.jsonl", {"hidden_size": "x"}, "cannot be loaded"),
    ):
        with pytest.raises(InputError, match=says) as caught:
            run(*recorded(tmp_path, prompts, name, **config), "--random-weights")
        assert len(str(caught.value).splitlines()) == 1


def test_prompts_are_texts_or_token_ids(tmp_path: Path) -> None:
    """One per line, up to a limit."""
    texts, ids = tmp_path / "p.txt", tmp_path / "p.jsonl"
    texts.write_text("Hello there\n\n[1, 2]\n")
    ids.write_text("[1, 2]\n[3]\n")
    assert read_prompts(texts, 2) == ["Hello there", "[1, 2]"]
    assert read_prompts(ids, 2) == [[1, 2], [3]]
    assert refusal(ids, lambda path: read_prompts(path, 1)) == "holds more than 1 prompts"
    for text, says in (
        ("\n", "holds no prompts"),
        ("[]\n", "line 1: must be a list of token ids"),
        ("[1, -2]\n", "line 1: must be a list of token ids"),
        ("[1, true]\n", "line 1: must be a list of token ids"),
        ('{"a": 1}\n', "line 1: must be a list of token ids"),
        ("[1\n", "line 1: not valid JSON"),
    ):
        ids.write_text(text)
        assert refusal(ids, lambda path: read_prompts(path, 9)).startswith(says)
