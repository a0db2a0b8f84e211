"""`python -m benchmarks.measured`: table, JSON, files, and what is wrong with points."""

import json
from pathlib import Path

import pytest

from benchmarks.measured.__main__ import DOCUMENT, PICTURE, run

HEAD = "machine,preset,bits,runtime,tok_s,knob,knob_value,n_cpu_moe,source,context_tokens,top_k"
GOOD = "a100,mixtral-8x7b,Q4_K_M,llama.cpp,20,--n-cpu-moe,20,20,me,0,"


def table(tmp_path: Path, *rows: str, head: str = HEAD) -> str:
    """Write a table of points."""
    path = tmp_path / "points.csv"
    path.write_text("\n".join([head, *rows]) + "\n")
    return str(path)


def test_own_points_are_predicted_without_their_machine(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of a known machine, and of one that only a preset describes: there nothing is left out."""
    other = "rtx4090+epyc-9004,glm-4.5-air,Q4_K_M,llama.cpp,30,--n-cpu-moe,40,40,me,4096,"
    path = table(tmp_path, GOOD, other, "a100,mixtral-8x7b,8,llama.cpp,9,?,,,me,,")
    assert run([path, "--json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    first, second = [line for line in lines if line["kind"] == "point"]
    assert (first["cpu_layers"], first["layers"], first["tokens_per_s"]) == (20, 32, 20)
    assert first["held_out"] != pytest.approx(first["in_sample"], rel=1e-3)
    assert first["held_out_error"] == pytest.approx(first["held_out"] / 20 - 1)
    assert second["held_out"] == pytest.approx(second["in_sample"], rel=1e-3)
    [left] = [line for line in lines if line["kind"] == "left out"]
    assert left["why_not"] == "where the experts are is not stated"
    summary = {line["held_out"]: line for line in lines if line["kind"] == "summary"}
    assert summary["machine"]["points"] == 2
    assert not any("calibrated" in name for name in summary)
    assert not any(line["kind"] == "strategies" for line in lines)


def test_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The report has the picture, the Markdown alone has none; the table is printed."""
    path = table(tmp_path, GOOD)
    markdown, report = tmp_path / "m.md", tmp_path / "a" / "b"
    options = ["--markdown", str(markdown), "--report", str(report)]
    assert run([path, *options]) == 0
    assert "20 of 32" in capsys.readouterr().out
    shown = f"![Measured against predicted tokens/s, machine by machine]({PICTURE})\n\n"
    before, after = (report / DOCUMENT).read_text().split(shown)
    assert before + after == markdown.read_text()
    assert "20 of 32" in markdown.read_text()
    assert "a100" in (report / PICTURE).read_text()


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (GOOD.replace(",20,--", ",fast,--"), "line 2: tok_s: must be a number, not 'fast'"),
        (GOOD.replace(",20,--", ",0,--"), "line 2: tok_s: must be above 0"),
        (GOOD.replace(",20,--", ",nan,--"), "line 2: tok_s: must be from 0 to below 1e9"),
        (GOOD.replace(",20,20,", ",20,2.5,"), "line 2: n_cpu_moe: must be a whole number"),
        (GOOD.replace(",20,20,", ",20,9999,"), "line 2: n_cpu_moe: must be from 0 to 4096"),
        (GOOD.replace(",20,20,", ",20,inf,"), "line 2: n_cpu_moe: must be from 0 to below 1e9"),
        (GOOD + "99", "line 2: top_k: must be from 1 to 8, not 99"),
        (GOOD.replace("a100", "abacus"), "line 2: machine"),
        (GOOD.replace("mixtral", "mixture"), "line 2: model"),
        (GOOD.replace("Q4_K_M", "many"), 'line 2: bits: the quantisation "many" is not known'),
        (GOOD.replace("llama.cpp", "vapour"), "line 2: runtime: must be one of"),
        (GOOD.replace(",0,", ",-1,"), "line 2: context_tokens: must be from 0"),
        ("a100", "line 2: runtime: must be one of"),
        (GOOD.replace(",20,20,", ",20,,"), "none of its points can be expressed"),
    ],
)
def test_bad_points_are_one_line(
    row: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With file, line and column; exit code 2."""
    assert run([table(tmp_path, row)]) == 2
    error = capsys.readouterr().err
    assert said in error
    assert "points.csv" in error
    assert error.count("\n") == 1


def test_bad_files_and_options_are_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no table."""
    binary = tmp_path / "binary.csv"
    binary.write_bytes(b"\xff\xfe")
    wide = table(tmp_path, "x" * 200_000)
    for arguments, said in (
        ([str(binary)], "not UTF-8 text"),
        ([str(tmp_path)], "Is a directory"),
        ([str(tmp_path / "none.csv")], "No such file"),
        ([wide], "field larger than field limit"),
    ):
        assert run([*arguments]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1
    many = table(tmp_path, *[GOOD] * 2001)
    assert run([many]) == 2
    assert "has more than 2000 points" in capsys.readouterr().err
    empty = table(tmp_path)
    assert run([empty]) == 2
    assert "there are no points" in capsys.readouterr().err
    assert run([table(tmp_path, GOOD, head=HEAD[8:])]) == 2
    assert "machine: this column is missing" in capsys.readouterr().err
