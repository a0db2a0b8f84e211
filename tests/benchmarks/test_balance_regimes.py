"""The regime map of the balance equation: both readings, and what the rows and columns say."""

from pathlib import Path

import numpy as np
import pytest

from benchmarks.studies.balance_regimes import draw, regimes, to_markdown


def test_the_mean_fails_where_loads_spread_and_own_times_nowhere(tmp_path: Path) -> None:
    """Two spreads and two rates, one prompt each; the table and the picture have them all."""
    skews, speedups = (0.0, 4.0), (16.0, 256.0)
    found = regimes(1, skews=skews, speedups=speedups)
    assert found.unproven == 0
    mean, own = found.median
    assert own.max() < 0.005
    assert mean[1, 0] > 1.5 * mean[0, 0] > 0.1
    assert mean[:, 1].max() < 0.05
    assert found.hottest[1] > found.hottest[0]
    assert (np.diff(found.ratio, axis=1) > 0).all()
    text = to_markdown(found, skews, speedups)
    assert text.count("| 4 (") == 2
    assert "256 x (T_w / T_n" in text
    pytest.importorskip("matplotlib")
    draw(found, skews, speedups, tmp_path / "map.svg")
    assert "hottest tenth gets" in (tmp_path / "map.svg").read_text()
