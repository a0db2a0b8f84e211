"""``moeopt trace info``: what it prints, and its exit codes."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moeopt import InputError
from tests.raising_cli import call
from tests.real_traces import real_trace_file

Capture = pytest.CaptureFixture[str]


def run(*arguments: str) -> int:
    """Run the command by itself, as the application does."""
    return call(["trace", *arguments])


def info_json(capsys: Capture, *arguments: str) -> dict[str, Any]:
    """Return the object that `info --json` prints."""
    assert run("info", *arguments, "--json") == 0
    [line] = capsys.readouterr().out.splitlines()
    read: dict[str, Any] = json.loads(line, parse_constant=pytest.fail)
    return read


@pytest.fixture
def file(tmp_path: Path) -> str:
    """Return a small trace's file: 200 tokens, two layers, 8 experts, top-2, two sequences."""
    rng = np.random.default_rng(0)
    scores = rng.gumbel(size=(200, 2, 8)) - np.arange(8) / 3
    ids = np.argsort(-scores, axis=2)[:, :, :2].astype(np.uint8)
    path = tmp_path / "small.npz"
    np.savez(path, topk_ids=ids, seq_len=np.array([150, 50]))
    return str(path)


def test_info_prints_sizes_and_every_figure(file: str, capsys: Capture) -> None:
    """For people: one line of sizes, two tables."""
    assert run("info", file, "--batch", "50") == 0
    text = capsys.readouterr().out
    assert "200 tokens, 2 layers, 8 experts, 2 k, 2 sequences" in text
    for word in ("largest load / mean load", "in steps of 50 tokens", "(random: 0.464)"):
        assert word in text
    for word in ("by windows", "retention bound", "covered by the hottest 25 %"):
        assert word in text


def test_info_json_is_one_object(file: str, capsys: Capture) -> None:
    """Sizes, figures per layer, hit rates per policy."""
    data = info_json(capsys, file)
    assert {key: data[key] for key in ("tokens", "layers", "experts", "k", "sequences")} == {
        "tokens": 200, "layers": 2, "experts": 8, "k": 2, "sequences": 2,
    }  # fmt: skip
    assert len(data["figures"]["skew"]["layers"]) == 2
    assert data["hit_rates"]["lru"]["capacities"] == list(range(1, 9))
    assert data["hit_rates"]["fifo"]["capacities"] == [1, 2, 4, 6]
    assert data["figures"]["step_correlation"]["mean"] is None


def test_info_tells_of_repeats(file: str, tmp_path: Path, capsys: Capture) -> None:
    """Whether there are any, for people and in JSON, once; a single layer's trace as a whole."""
    assert run("info", file) == 0
    assert "no runs of 20 tokens and more that occur twice" in capsys.readouterr().out
    ids = np.load(file)["topk_ids"]
    np.savez(tmp_path / "turns.npz", topk_ids=np.concatenate([ids, ids[:50]]))
    turns = str(tmp_path / "turns.npz")
    assert run("info", turns) == 0
    shown = capsys.readouterr()
    assert "20.0% of the tokens lie in runs of 20 tokens and more that occurred" in shown.out
    assert "`moeopt trace dedupe`" in shown.out
    assert shown.err == ""
    again = {"min_run": 20, "runs": 1, "longest": 50, "tokens": 50, "share": 0.2}
    assert info_json(capsys, turns)["repeats"] == again
    assert info_json(capsys, turns, "--layer", "1")["repeats"] == again


def test_info_of_one_layer_is_that_layer(file: str, capsys: Capture) -> None:
    """The same figures as in the whole trace's list."""
    whole = info_json(capsys, file, "--batch", "20")
    one = info_json(capsys, file, "--batch", "20", "--layer", "1")
    assert one["layer"] == 1
    assert one["layers"] == 1
    for key, value in one["figures"].items():
        expected = whole["figures"][key]["layers"][1:2]
        assert value["layers"] == pytest.approx(expected), key
    assert one["figures"]["affinity"]["layers"] == []


def test_info_takes_the_number_of_experts(file: str, capsys: Capture) -> None:
    """A trace need not use all of them: with 16, the same loads are twice as skewed."""
    eight, sixteen = (info_json(capsys, file, "--experts", n) for n in ("8", "16"))
    skews = [data["figures"]["skew"]["mean"] for data in (eight, sixteen)]
    assert skews[1] == pytest.approx(2 * skews[0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "2"], "layer: must be from 0 to 1, not 2"),
        (["--batch", "0"], "batch: must be at least 1, not 0"),
        (["--experts", "3"], "experts: must be above the trace's expert 7, not 3"),
    ],
)
def test_info_refuses_what_does_not_fit(file: str, arguments: list[str], message: str) -> None:
    """An InputError, which the application turns into exit code 2."""
    with pytest.raises(InputError) as error:
        run("info", file, *arguments)
    assert (str(error.value), error.value.exit_code) == (message, 2)


REAL = [
    *(f"esft_deepseek_v2_lite/{task}.npz" for task in ("intent", "law", "summary")),
    *(f"hdmoe_mixtral_8x7b/{kind}.npz" for kind in ("writing", "humanities", "coding")),
    *(f"hdmoe_mixtral_8x7b/{kind}.npz" for kind in ("stem", "roleplay", "extraction")),
]


FIRST = (REAL[0], REAL[3])

SHARES = [name if name in FIRST else pytest.param(name, marks=pytest.mark.slow) for name in REAL]
"""One trace of each origin; the others belong to the long tail."""


@pytest.mark.parametrize("name", SHARES)
def test_info_agrees_with_plain_counting_on_real_traces(name: str, capsys: Capture) -> None:
    """One layer of every trace, counted with dictionaries and lists."""
    path = real_trace_file(name)
    with np.load(path) as arrays:
        tokens: list[list[int]] = arrays["topk_ids"][:, 3].tolist()
        lengths = arrays["seq_len"].tolist() if "seq_len" in arrays.files else [len(tokens)]
    data = info_json(capsys, str(path), "--layer", "3")
    used = Counter(expert for token in tokens for expert in token)
    experts, accesses = data["experts"], sum(used.values())
    ranked = sorted((used[e] for e in range(experts)), reverse=True)
    starts = {sum(lengths[:at]) for at in range(len(lengths))}
    pairs = [(tokens[t - 1], tokens[t]) for t in range(1, len(tokens)) if t not in starts]
    again = sum(bool(set(a) & set(b)) for a, b in pairs) / len(pairs)
    figures = data["figures"]
    assert data["sequences"] == len(lengths)
    assert figures["skew"]["mean"] == pytest.approx(ranked[0] * experts / accesses)
    assert figures["top_25"]["mean"] == pytest.approx(sum(ranked[: experts // 4]) / accesses)
    assert figures["reuse_any"]["mean"] == pytest.approx(again)
    half = experts // 2
    static = data["hit_rates"]["static"]["each"][half - 1]
    assert static == pytest.approx(sum(ranked[:half]) / accesses)
    assert data["hit_rates"]["lru"]["each"][half - 1] == pytest.approx(lru(tokens, half))


def lru(tokens: list[list[int]], capacity: int) -> float:
    """Return the hit rate of a cache that is a list, most recent last."""
    content: list[int] = []
    hits = 0
    for token in tokens:
        hits += sum(expert in content for expert in token)
        content = ([e for e in content if e not in token] + token)[-capacity:]
    return hits / sum(map(len, tokens))


def test_counts_alone_have_skew_and_shares(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Layer 0: 6 of 8 on one of two experts, skew 1.5; layer 1: all on one, skew 2."""
    file = tmp_path / "counts.csv"
    file.write_text("layer,expert,count\n0,0,6\n0,1,2\n1,0,0\n1,1,5\n")
    assert run("info", str(file), "--json") == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["layers"], found["experts"], found["accesses"]) == (2, 2, 13)
    assert found["figures"]["skew"]["layers"] == [1.5, 2.0]
    assert found["hit_rates"] == {}
    assert run("info", str(file), "--layer", "1") == 0
    assert "2.000" in capsys.readouterr().out
    with pytest.raises(InputError, match="layer: must be from 0 to 1, not 2"):
        run("info", str(file), "--layer", "2")


def test_counts_of_olmoe_agree_with_a_plain_computation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Largest load over mean load of the three layers, from the lines of the table."""
    file = real_trace_file("olmoe_allenai/expert_counts.csv")
    by_layer: dict[str, list[int]] = {}
    for line in file.read_text().splitlines()[1:]:
        model, domain, layer, _, count = line.split(",")
        if (model, domain) == ("olmoe", "arxiv"):
            by_layer.setdefault(layer, []).append(int(count))
    assert (
        run("info", str(file), "--where", "model=olmoe", "--where", "domain=arxiv", "--json") == 0
    )
    found = json.loads(capsys.readouterr().out)["figures"]["skew"]["layers"]
    assert found == pytest.approx([max(c) / (sum(c) / 64) for c in by_layer.values()])
    with pytest.raises(InputError, match="--where: must be LABEL=VALUE"):
        run("info", str(file), "--where", "model")
