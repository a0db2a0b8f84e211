"""The study of layouts on later windows: what its tables say of records made by hand."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks.studies import robust_layout as study


def record(makespans: dict[str, list[int]], counts: tuple[int, ...]) -> Any:
    """Return two judged windows, whose optima are 100 ns, the second with a bound of 96."""
    rules = {
        f"{rule}/{count}": {"exact": ns, "trimoe": [2 * one for one in ns], "cpu_s": 1.5}
        for rule, ns in makespans.items()
        for count in counts
    }
    return {"optimum": [100, 100], "bound": [100, 96], "rules": rules}


def test_the_tables() -> None:
    """Median 12 % between longest-first's 15 and hindsight's 5 is 30 % of the possible gain."""
    made = {key: [110, 120] for key in study.RULES}
    made |= {"robust": [102, 122], study.HINDSIGHT: [102, 108]}
    rows = study.pairs_table([record(made, study.COUNTS)])
    cells = [cell.strip() for cell in rows[2 + study.RULES.index("robust")].strip("|").split("|")]
    assert cells == [
        *("robust", "12.0 / 22.0 %", "12.0 %", "30 % / 30 %", "50 %", "50 %", "2.0"),
        *("124.0 %", "1.5"),
    ]
    assert "2 pairs of a decision and a later window, 1 decisions" in rows[-1]
    assert "at most 7.1 % (median; largest 7.1 %)" in rows[-1]  # 210 / 196
    assert rows[-1].endswith("Windows without a proven optimum: 1.")


def test_the_page_gets_its_table(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Between the marks; a second time it stays as it is. The noise floor is printed."""
    pytest.importorskip("matplotlib")
    made = {key: [110, 120] for key in [*study.RULES, "popularity known"]}
    one = record(made, study.COUNTS)
    bare = {"rules": {rule: one["rules"][f"{rule}/8"] for rule in made}}
    page = tmp_path / "later.md"
    page.write_text("<!-- pairs: begin -->\n<!-- pairs: end -->\ntext\n")
    monkeypatch.setattr(study, "PAGE", page)
    found = {"pairs/a/1/0": one, "windows/a": one, "floor/64/a": one | bare}
    study.page(found)
    first = page.read_text()
    assert first.count("text") == 1
    assert "| 64 | 15.0 % | 15.0 % | 15.0 % | 15.0 % |" in capsys.readouterr().out
    study.page(found)
    assert page.read_text() == first
    assert page.with_name("robust.svg").read_text().startswith("<?xml")


def test_what_is_measured_was_not_tuned_on() -> None:
    """No layer is among those that were looked at while the method was made."""
    assert not set(study.LAYERS) & set(study.TUNED_ON)
