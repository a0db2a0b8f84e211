"""Loads forecast from the routes of the same tokens through the layers before."""

import numpy as np
import pytest

from benchmarks.harness.routes import forecast
from moeopt import InputError

EXPERTS, BATCH = 16, 64


def routes(seed: int, windows: int, follows: float) -> np.ndarray:
    """Return tokens that take expert e + 1 after e with a chance, else any; one per layer."""
    rng = np.random.default_rng(seed)
    tokens = windows * BATCH
    popular = np.repeat(rng.integers(EXPERTS, size=windows), BATCH)
    first = np.where(rng.random(tokens) < 0.5, popular, rng.integers(EXPERTS, size=tokens))
    free = rng.integers(EXPERTS, size=tokens)
    second = np.where(rng.random(tokens) < follows, (first + 1) % EXPERTS, free)
    return np.stack([first, second], axis=1)[:, :, None]


def test_what_follows_from_the_layer_before_is_forecast() -> None:
    """The expert after the window's popular one gets most, and little is left to chance."""
    ids = routes(0, 33, 0.9)
    seen, now = ids[: 32 * BATCH], ids[32 * BATCH :, :1]
    found = forecast(seen, now, EXPERTS, BATCH)
    came = np.bincount(ids[32 * BATCH :, 1, 0], minlength=EXPERTS)
    usual = np.bincount(seen[:, 1, 0], minlength=EXPERTS) / 32
    assert found.mean.argmax() == came.argmax()
    assert ((found.mean - came) ** 2).sum() < 0.1 * ((usual - came) ** 2).sum()
    assert found.mean.sum() == pytest.approx(BATCH)
    assert set(found.sample(8, np.random.default_rng(0)).sum(axis=1)) == {BATCH}


def test_nothing_follows_from_layers_that_do_not_depend_on_each_other() -> None:
    """Then the mean is the usual load, and the dispersion that of independent draws."""
    ids = routes(1, 33, 0.0)
    found = forecast(ids[: 32 * BATCH], ids[32 * BATCH :, :1], EXPERTS, BATCH)
    assert np.abs(found.mean - BATCH / EXPERTS).max() < 2
    assert (found.variance / found.mean).mean() == pytest.approx(1, abs=0.2)


@pytest.mark.parametrize(
    ("tokens", "layers", "says"),
    [(64, 2, "two or more windows"), (100, 2, "two or more windows"), (128, 3, "a layer less")],
)
def test_shapes_that_do_not_fit_are_refused(tokens: int, layers: int, says: str) -> None:
    """One line that names the argument."""
    with pytest.raises(InputError, match=says):
        forecast(np.zeros((tokens, layers, 1), int), np.zeros((64, 1, 1), int), EXPERTS, BATCH)
