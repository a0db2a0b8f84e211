"""Sizes of the experiment as assumptions, and all assumptions at once."""

from pathlib import Path

import pytest

import moeopt
from tests.rooms.cli import run
from tests.rooms.core import InstanceEnvelope
from tests.rooms.study import Running, assume, joint_sentences, jointly


def made(problem: str = "tri_domain", **options: object) -> InstanceEnvelope:
    """Return an instance of a law, as the defaults have it."""
    common = {"machine": "trimoe", "model": "deepseek-v2-lite", "workload": "trimoe-skew"}
    return moeopt.generate(problem, **common, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "value", "options"),
    [
        ("batch", "64", {"batch": 64}),
        ("dimms", "8", {"dimms": 8}),
        ("ndp_rate", "0.5", {"ndp_rate": 0.5}),
        ("residents", "4", {"residents": 4}),
    ],
)
def test_a_size_is_what_the_generator_makes_of_it(
    name: str, value: str, options: dict[str, int]
) -> None:
    """The same as if it had been asked for at once."""
    other = assume(made(batch=128), name, value)
    assert other is not None
    expected = made(**({"batch": 128} | options))
    assert other.model_copy(update={"name": "", "provenance": None}) == expected.model_copy(
        update={"name": "", "provenance": None}
    )


def test_slower_units_take_longer_where_they_compute() -> None:
    """Half the rate, at most twice the time; reading weights takes as long."""
    one, half = made(batch=512), made(batch=512, ndp_rate=0.5)
    pairs = [
        (a.ndp_ns, b.ndp_ns)
        for a, b in zip(one.experts, half.experts, strict=True)  # type: ignore[attr-defined]
        if a.ndp_ns is not None and b.ndp_ns is not None
    ]
    assert all(a <= b <= 2 * a + one.quantum_ns for a, b in pairs if one.quantum_ns)
    assert any(a < b for a, b in pairs)


def test_a_batch_of_a_trace_needs_the_trace(root: Path, tmp_path: Path) -> None:
    """Nothing is guessed; a file that is another one is refused."""
    file = root / "instances" / "tri_domain" / "esft-window" / "window-law-layer4-batch256.json"
    instance = moeopt.load(file)
    assert assume(instance, "batch", "64") is None
    assert assume(instance, "batch", "64", tmp_path) is None
    assert assume(instance, "batch", "256") is instance
    (tmp_path / "esft_deepseek_v2_lite").mkdir()
    (tmp_path / "esft_deepseek_v2_lite" / "law.npz").write_bytes(b"another")
    with pytest.raises(moeopt.InputError, match="is not the trace"):
        assume(instance, "batch", "64", tmp_path)


def test_all_assumptions_at_once_name_the_ends() -> None:
    """The defaults are a point; the worst is at least as far as they are."""
    found, size = jointly([made(batch=64)], ["trimoe"], points=6, running=Running(work_limit=5))
    assert (len(found), found[0].values, size > 1000) == (6, {}, True)
    medians = [one.summary.excess_median for one in found]
    sentence, best, worst = joint_sentences(found, size)
    assert f"{100 * max(m for m in medians if m is not None):.1f} %" in sentence
    assert (best.startswith("  - best: "), worst.startswith("  - worst: ")) == (True, True)
    assert [one.values for one in jointly([made(batch=64)], ["trimoe"], points=6)[0]] == [
        one.values for one in found
    ]


def test_the_command_prints_them(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With --points; it excludes options of the table of single assumptions."""
    moeopt.save(made(batch=64), tmp_path / "one.json")
    options = ["--points", "3", "--work-limit", "5"]
    assert run(["sensitivity", str(tmp_path / "one.json"), *options]) == 0
    assert "over 3 of" in capsys.readouterr().out
    assert run(["sensitivity", str(tmp_path / "one.json"), *options, "--markdown"]) == 2
    assert "--markdown: cannot be combined with --points" in capsys.readouterr().err
