"""The law of losses: fitted to tables it gives their numbers back, and options draw by it."""

import numpy as np
import pytest

from benchmarks.studies.loss_law import fitted_to
from tests.rooms.sim import FITTED, LAWS, LossLaw

OTHER = LossLaw(depth=2.0, spread=0.3, fall=(0.5, 1.0), scatter=(0.1, 0.05))


@pytest.mark.parametrize("law", [FITTED, OTHER])
def test_a_drawn_table_is_fitted_by_its_own_law(law: LossLaw) -> None:
    """Spread, fall and depth come back, within what 64 layers of 64 experts tell."""
    found = fitted_to(law.table(64, 64, (1, 2, 3), seed=3))
    assert found.depth == pytest.approx(law.depth, abs=0.1)
    assert found.spread == pytest.approx(law.spread, rel=0.15)
    assert found.fall == pytest.approx(law.fall, abs=0.02)
    assert found.scatter == pytest.approx(law.scatter, rel=0.15)


def test_laws_differ_in_what_they_say() -> None:
    """Alike: one loss for a layer's experts. Fourfold: four times less with each bit, roughly."""
    alike = LAWS["alike"].table(3, 8, (1, 2, 4), seed=0).losses
    assert (alike == alike[:, :1]).all()
    falls = LAWS["fourfold"].table(40, 40, (2, 3), seed=0).losses
    assert np.median(falls[:, :, 0] / falls[:, :, 1]) == pytest.approx(4, rel=0.01)


def test_more_layers_leave_the_first_ones_as_they_are() -> None:
    """But for the depth that they are at; the seed alone sets the rest."""
    few, many = (OTHER.table(layers, 5, (2, 3), seed=1).losses for layers in (2, 4))
    assert few[0] == pytest.approx(many[0])
    assert not np.allclose(few, OTHER.table(2, 5, (2, 3), seed=2).losses)
