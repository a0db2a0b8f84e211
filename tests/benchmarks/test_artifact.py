"""The evidence: samples, what is stored of them, and the page that is made of it."""

import os
import re
from pathlib import Path

import pytest

from benchmarks.artifact.__main__ import page, read, readme, rounded
from benchmarks.artifact.measures import MEASURES
from benchmarks.artifact.samples import MIXTRAL, V2_LITE, Source, layers_of

TRACES = os.environ.get("MOEOPT_TRACES")
WORDS, NUMBERS = 120, 10
"""Most of a finding, its table apart."""


def sections(root: Path) -> list[str]:
    text = (root / "docs" / "findings.md").read_text()
    return re.split(r"\n## (?=\d+\. )", text.partition("\n## The published")[0])[1:]


def test_the_page_is_made_of_what_is_stored(root: Path) -> None:
    """`python -m benchmarks.artifact page` changes nothing."""
    text = (root / "docs" / "findings.md").read_text()
    assert page(text) == text, "python -m benchmarks.artifact page"
    first = (root / "README.md").read_text()
    assert readme(first) == first, "python -m benchmarks.artifact page"


def test_every_measure_is_stored_for_choices_and_for_the_test() -> None:
    stored = read()
    assert set(stored) == set(MEASURES)
    for parts in stored.values():
        assert set(parts) == {"choice", "test"}
        groups = [set(parts[part]["values"]) for part in ("choice", "test")]
        assert groups[0] == groups[1]


@pytest.mark.parametrize("source", [V2_LITE, MIXTRAL])
def test_nothing_of_the_test_is_chosen_with(source: Source) -> None:
    """Neither a trace nor a layer is in both parts."""
    assert not set(source.choice) & set(source.test)
    halves = [set(layers_of(source, part)) for part in ("choice", "test")]
    assert not halves[0] & halves[1]
    assert halves[0] | halves[1] == set(range(source.layers))


def test_findings_are_short(root: Path) -> None:
    """Words and numbers of each, without its table, its commands and its heading's number."""
    found = sections(root)
    assert 8 <= len(found) <= 12
    for section in found:
        prose = "\n".join(line for line in section.splitlines()[1:] if not line.startswith("|"))
        prose = re.sub(r"`[^`]*`|<[^>]*>|!\[[^\]]*\]|\([^)]*\)", " ", prose)
        words = re.findall(r"[A-Za-z][A-Za-z'.-]*", prose)
        numbers = re.findall(r"\[[^\]]*\]|(?<![\w.])\d[\d,.]*", prose)
        assert len(words) <= WORDS, (section.splitlines()[0], len(words))
        assert len(numbers) <= NUMBERS, (section.splitlines()[0], numbers)
        assert "Refuted if" in section or "measured.md" in section or "compare.md" in section


@pytest.mark.skipif(TRACES is None, reason="no traces: MOEOPT_TRACES=DIR")
@pytest.mark.parametrize("name", ["slices", pytest.param("widths", marks=pytest.mark.slow)])
def test_what_is_stored_comes_out_again(name: str) -> None:
    """On the samples that choices may be made with."""
    assert TRACES is not None
    found = rounded(MEASURES[name](Path(TRACES), "choice"))
    assert found == read()[name]["choice"]["values"]
