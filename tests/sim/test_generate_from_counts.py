"""``generate placement`` of counts, in the library and from the command line."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.interop.test_imatrix import imatrix
from tests.interop.torch_files import saved
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.placement import Instance, frequency
from tests.rooms.sim import SAMPLED, UNKNOWN, Counts

LITE: dict[str, Any] = {"machine": "rtx4090-7960x", "model": "deepseek-v2-lite"}
FILES = [f"--{name}={value}" for name, value in LITE.items()]


def counts(layers: int = 26) -> Counts:
    """Return counts of DeepSeek-V2-Lite's shape, some 3000 tokens, other experts hot by layer."""
    rows = [np.roll(np.linspace(520, 42.5, 64).astype(np.int64), n) for n in range(layers)]
    return Counts("made up", np.array([rows]))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return them as an importance matrix."""
    rows = {n: row.tolist() for n, row in enumerate(counts().total(), start=1)}
    return imatrix(tmp_path / "m.gguf", rows)


def made(**options: Any) -> Instance:
    """Return the instance of the counts."""
    return moeopt.generate("placement", counts=counts(), share=0.4, **LITE, **options)


def test_steps_are_drawn_and_the_counts_are_what_rules_know() -> None:
    """So the frequency rule takes the most counted experts, not those of the few steps."""
    instance = made(steps=20)
    uses = np.zeros((26, 64), dtype=np.int64)
    for step in instance.steps:
        for layer, active in enumerate(step):
            assert len(active) == 6
            for expert, tokens in active:
                uses[layer, expert] += tokens
    rows = counts().total()
    assert (np.abs(uses - rows * 120 / rows.sum(axis=1, keepdims=True)) < 1).all()
    assert np.array_equal(instance.known.profile_counts, rows)
    held = frequency(instance).gpu
    least = min(rows[n, list(layer)].min() for n, layer in enumerate(held))
    outside = [np.delete(rows[n], list(layer)).max() for n, layer in enumerate(held)]
    assert least >= max(outside)
    provenance = instance.provenance or {}
    assert provenance["trace"][SAMPLED]["tokens"] == 20
    assert provenance["trace"][SAMPLED]["unknown"] == UNKNOWN
    assert made(steps=20) == instance
    assert made(steps=20, seed=1).steps != instance.steps


@pytest.mark.parametrize(
    "option",
    [{"batching": "streams"}, {"first_step": 2}, {"batching": "sequences", "first_sequence": 0}],
)
def test_what_needs_order_or_prompts_is_refused(option: dict[str, Any]) -> None:
    """With the line that says what counts do not tell."""
    with pytest.raises(InputError, match=f"{next(iter(option))}: needs a trace; {UNKNOWN}"):
        made(steps=2, **option)


def test_other_problems_and_several_sources_are_refused() -> None:
    """A cache lives on the order of tokens."""
    with pytest.raises(InputError, match=f"generate cache: counts: .*{UNKNOWN}"):
        moeopt.generate("cache", counts=counts(), **LITE)
    with pytest.raises(InputError, match="exactly one of them"):
        moeopt.generate("placement", counts=counts(), workload="trimoe-skew", **LITE)
    with pytest.raises(InputError, match=r"x\.csv: cannot be read"):
        moeopt.generate("placement", counts="x.csv", **LITE)


@pytest.mark.parametrize("option", ["--counts", "--trace"])
def test_a_file_of_counts_makes_an_instance(
    option: str, file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Under either option; the command says that it is no trace."""
    out = tmp_path / "instance.json"
    options = ["--steps", "2", "--share", "0.4", "--out", str(out)]
    assert run(["generate", "placement", *FILES, option, str(file), *options]) == 0
    assert UNKNOWN in capsys.readouterr().err
    assert SAMPLED in json.loads(out.read_text())["provenance"]["trace"]
    assert run(["generate", "placement", *FILES, "--trace", str(file), "--counts", str(file)]) == 2


def test_a_recording_of_counts_is_taken_for_what_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """SGLang's recorder, mode "stat": a step for each pass, zeros in dense layers."""
    steps = np.zeros((3, 27, 64), dtype=np.int32)
    steps[:, 1:] = counts().counts // 3
    path = saved(tmp_path / "stat.pt", {"rank": 0, "logical_count": steps})
    out = tmp_path / "instance.json"
    options = ["--steps", "2", "--share", "0.4", "--out", str(out)]
    assert run(["generate", "placement", *FILES, "--trace", str(path), *options]) == 0
    assert UNKNOWN in capsys.readouterr().err
    instance = moeopt.load(out)
    assert np.array_equal(instance.known.profile_counts, steps[:, 1:].sum(axis=0))
    other = ["--machine=rtx4090-7960x", "--model=qwen3-30b-a3b"]
    assert (
        "count: 26 layers, 1 to 26; qwen3-30b-a3b has 48 with experts, 0 to 47"
        in refused_command(
            capsys, ["generate", "placement", *other, "--counts", str(path), *options]
        )
    )
