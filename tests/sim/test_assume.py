"""Instances made again under other assumptions: whatever a provenance says, never a traceback."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.rooms.core import Assumption
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.study import assume, instance_files

ODD: dict[str, dict[str, Any]] = {
    "options": {"options": [1]},
    "unknown options": {"options": {"x": [1]}},
    "trace": {"trace": "x"},
    "machine": {"machine": [1]},
    "another machine": {"machine": "ktransformers-a100"},
    "seed": {"seed": "a"},
}
STRANGE = {"layer": "x", "batch": -1, "cold_cut": 7, "ndp_speedup": "q", "penalty": {}}


DEAR = ("bitwidth", "relayout")
"""Their instances take long to make: experts are quantised, or all windows are laid out."""

QUICK_FIRST = [pytest.param(p, marks=pytest.mark.slow) if p in DEAR else p for p in PROBLEMS]


def concerned(instance: Any, assumptions: Sequence[Assumption]) -> bool:
    """Tell whether an assumption has a meaning for an instance, by its options."""
    options = (instance.provenance or {}).get("options", {})
    return any(all(options.get(k) == v for k, v in s.applies.items()) for s in assumptions)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", QUICK_FIRST)
def test_an_odd_provenance_gives_no_instance_or_one(problem: str, every: bool, root: Path) -> None:
    """Missing, of another type, out of range; and a file that it names is not opened."""
    assumptions = [s for s in get_problem(problem).assumptions() if not s.methods]
    made = map(moeopt.load, instance_files(root / "instances" / problem))
    instance = next(one for one in made if not assumptions or concerned(one, assumptions))
    usual = instance.provenance or {}
    options = usual["options"]
    odd = [None, *({k: v for k, v in usual.items() if k != gone} for gone in usual)]
    odd += [usual | changes for changes in ODD.values()]
    odd += [usual | {"options": options | changes} for changes in (STRANGE, {"loss_table": "/x"})]
    again = 0
    for provenance in [usual, *odd]:
        other = instance.model_copy(update={"provenance": provenance})
        for assumption in assumptions:
            values = [*assumption.values]
            for value in values if every or provenance is usual else values[-1:]:
                found = assume(other, assumption.name, value)
                assert found is None or found.problem == problem
                again += found is not None
    assert again >= bool(assumptions)
