"""Parameters, active ones and cache of models as published, from keys of their config.json."""

import json
from pathlib import Path

import pytest

from tests.rooms.sim import get_model
from tests.sim.published_models import MODELS

MOST_ERROR = 0.02
"""Published numbers are rounded, and norms, biases and parts for images are not counted."""


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_its_published_totals(name: str, tmp_path: Path) -> None:
    """Warnings are errors here: every key about sizes is read."""
    known = MODELS[name]
    path = tmp_path / "config.json"
    path.write_text(json.dumps(known.config))
    model = get_model(path)
    assert model.parameters / 1e9 == pytest.approx(known.total, rel=MOST_ERROR)
    if known.active is not None:
        counted = model.active_parameters
        if known.ends in ("head", "neither"):
            counted -= model.weights_of("embedding")
        if known.ends == "neither":
            counted -= model.weights_of("head")
        # a whole number of billions says no more than itself
        rounded = 0.5 if known.active == int(known.active) else 0.05
        assert counted / 1e9 == pytest.approx(known.active, rel=MOST_ERROR, abs=rounded)
    for context in (1_000, 131_072):
        numbers = sum(
            layers * each * min(context, window or context) for layers, each, window in known.cache
        )
        if known.cache:
            assert abs(model.cache_bytes(context) - 2 * numbers) <= 2 * model.layers


def test_the_table_is_of_many_classes() -> None:
    """By `model_type`, as each has keys of its own."""
    assert len(MODELS) >= 60
    assert len({known.config["model_type"] for known in MODELS.values()}) >= 45
