"""Which instances hold later loads of the same: by provenance, and said in one line if not."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.refusals import refused
from tests.rooms.problems import (
    check_later,
    family_of,
    forecast_saw_later,
    get_problem,
)
from tests.rooms.sim import Trace, hold_out

SYNTHETIC: dict[str, Any] = {"model": "deepseek-v2-lite", "workload": "trimoe-skew"}
OF: dict[str, dict[str, Any]] = {
    "layout": {"machine": "trimoe", "batch": 16, "windows": 2},
    "relayout": {"machine": "trimoe", "batch": 16},
    "placement": {"machine": "rtx4090-7960x", "steps": 4, "share": 0.25, "layers": 2},
    "cache": {"machine": "rtx4090-7960x", "tokens": 4, "slots": 9, "layers": 2},
    "bitwidth": {"machine": "cxl-ndp", "tokens": 32, "layers": 1, "losses": "convex"},
    "replication": {"machine": "trimoe", "batch": 16, "windows": 2, "devices": 8},
    "joint": {"machine": "rtx4090-7960x", "steps": 4, "layers": 2},
}
LOADS = {
    **{"layout": "scenarios", "replication": "windows"},
    **{"placement": "steps", "cache": "accesses", "joint": "steps"},
}


def twins(problem: str, **changes: Any) -> tuple[Any, Any]:
    """Return a pair from a workload."""
    return moeopt.generate_twins(problem, **(SYNTHETIC | OF[problem] | changes))


@pytest.mark.parametrize("problem", OF)
def test_every_problem_with_a_hold_out_has_twins(problem: str) -> None:
    """Recognised, of different names, adjacent."""
    observed, later = twins(problem)
    assert check_later(observed, [later]) == 0
    assert observed.name != later.name
    assert family_of(observed) == family_of(later) is not None
    with pytest.raises(InputError, match=f"{observed.name}: no later loads of {later.name}"):
        check_later(later, [observed])


def test_every_problem_is_among_them() -> None:
    """One that is new has to be added here."""
    from tests.rooms.problems import PROBLEMS

    assert {name for name in PROBLEMS if get_problem(name).holdout} <= set(OF)


@pytest.mark.parametrize("problem", LOADS)
def test_twins_of_a_workload_are_parts_of_one_trace(problem: str) -> None:
    """Joined they are what would have been observed in all; layouts' forecasts see neither."""
    observed, later = twins(problem, later=3)
    loads = [getattr(one, LOADS[problem]) for one in (observed, later)]
    assert len(loads[1]) == 3
    if problem in ("layout", "replication"):
        whole = moeopt.generate(problem, **(SYNTHETIC | OF[problem] | {"windows": 5}))
        assert getattr(whole, LOADS[problem]) == (*loads[0], *loads[1])
        if problem == "replication":
            return
        assert not forecast_saw_later(observed)
        assert forecast_saw_later(moved(observed, held_out=0))
        assert observed.forecast_tokens == whole.forecast_tokens != later.forecast_tokens
        return
    length = get_problem(problem).holdout.length
    count = OF[problem][length] + 3
    again, _ = twins(problem, **{length: count - 1}, later=1)
    assert getattr(again, LOADS[problem]) == (*loads[0], *loads[1])[:-1]
    alone = moeopt.generate(problem, **(SYNTHETIC | OF[problem] | {length: 3}))
    with pytest.raises(InputError, match="of a workload that was drawn for it alone"):
        check_later(observed, [alone])


def test_windows_at_a_distance_are_no_overlap() -> None:
    """Windows 1 and 4, then 7 and 10: nothing of the later ones was observed."""
    observed, later = twins("layout", first_window=1, spacing=3)
    assert [one.provenance["options"]["first_window"] for one in (observed, later)] == [1, 7]
    assert check_later(observed, [later]) == 2
    inside = moved(later, first_window=4)
    with pytest.raises(InputError, match="its windows 4 to 7 overlap the observed 1 to 4"):
        check_later(observed, [inside])


def moved(instance: Any, **options: Any) -> Any:
    """Return an instance whose provenance states other options."""
    provenance = instance.provenance | {"options": instance.provenance["options"] | options}
    return instance.model_copy(update={"provenance": provenance})


def restated(instance: Any, **entries: Any) -> Any:
    """Return an instance whose provenance states something else."""
    return instance.model_copy(update={"provenance": instance.provenance | entries})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda one: restated(one, model="mixtral-8x7b"), 'model: "deepseek-v2-lite" is not "mix'),
        (lambda one: restated(one, machine="a"), 'provenance.machine: "trimoe" is not "a"'),
        (lambda one: restated(one, seed=1), "provenance.seed: 0 is not 1"),
        (lambda one: restated(one, trace={"name": "other"}), "provenance.trace: "),
        (lambda one: restated(one, contaminated="text read twice"), "it is contaminated: "),
        (lambda one: restated(one, options=[1]), "it has no provenance that says where"),
        (lambda one: restated(one, options={}), "does not say in its provenance where its loads"),
        (lambda one: moved(one, first_window=True), "does not say in its provenance where its"),
        (lambda one: moved(one, first_window=1), "its windows 1 to 2 overlap the observed 0 to 1"),
        (lambda one: moved(one, batch=32), "provenance.options.batch: 16 is not 32"),
        (lambda one: moved(one, spacing=2), "provenance.options.spacing: 1 is not 2"),
        (lambda one: moved(one, drawn_windows=None), "was drawn for it alone"),
        (lambda one: one.model_copy(update={"provenance": None}), "it has no provenance"),
        (lambda one: twins("cache")[1], "it is of problem cache, not layout"),
    ],
)
def test_what_is_no_twin(change: Any, reason: str) -> None:
    """One line that names the reason."""
    observed, later = twins("layout")
    assert reason in refused(check_later, observed, [change(later)])


def test_later_loads_must_not_count_twice() -> None:
    """Two later instances that overlap, or the same one given twice."""
    observed, later = twins("layout")
    further = moved(later, first_window=4)
    assert check_later(observed, [further, later]) == 0
    with pytest.raises(InputError, match="its loads overlap those of"):
        check_later(observed, [later, moved(later, first_window=3)])


def test_decisions_that_do_not_last_have_no_twins() -> None:
    """A schedule is made anew."""
    options: dict[str, Any] = SYNTHETIC | {"machine": "trimoe", "batch": 16}
    with pytest.raises(InputError, match="generate tri_domain: a decision is made anew"):
        moeopt.generate_twins("tri_domain", **options)
    one = moeopt.generate("tri_domain", **options)
    with pytest.raises(InputError, match="decisions of tri_domain are made anew"):
        check_later(one, [one])


@pytest.mark.parametrize(
    ("problem", "changes", "reason"),
    [
        ("layout", {"later": 0}, "later: must be at least 1, not 0"),
        ("layout", {"later": True}, "later: must be an integer"),
        ("layout", {"windows": 256}, "windows"),
        ("cache", {"tokens": None}, "tokens: must say how many loads are observed"),
        ("relayout", {"later": 2}, "later: relayout has predicted and actual loads, no number"),
        (
            "relayout",
            {"loads": "actual"},
            "loads: is not to be given: it is predicted, then actual",
        ),
        ("layout", {"lair": 2}, "generate layout: lair: is not a known key"),
    ],
)
def test_twins_that_cannot_be_made(problem: str, changes: dict[str, Any], reason: str) -> None:
    """The argument is named."""
    assert reason in refused(twins, problem, **changes)


def test_the_two_parts_of_a_split_trace() -> None:
    """What is held out is later than what is kept, wherever it is counted from; never earlier."""
    ids = np.random.default_rng(0).integers(0, 64, (40, 26, 6))
    ids = np.sort(ids, axis=2) + np.arange(6)  # distinct
    trace = Trace("numbers", np.minimum(ids, 58 + np.arange(6)))
    kept, rest = (
        moeopt.generate(
            "cache",
            machine="rtx4090-7960x",
            model="deepseek-v2-lite",
            trace=part,
            slots=9,
            layers=2,
        ).model_copy(update={"name": name})
        for part, name in zip(hold_out(trace, 0.5), ("kept", "held out"), strict=True)
    )
    kept, rest = (moved(one, tokens=20) for one in (kept, rest))
    assert check_later(kept, [rest]) == 0
    with pytest.raises(InputError, match="its tokens 0 to 19 are of the part that was kept"):
        check_later(rest, [kept])
