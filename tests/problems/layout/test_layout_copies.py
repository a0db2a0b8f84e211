"""Several copies of an expert: by hand, against enumeration, and what theory says of them."""

from typing import Any

import pytest

import moeopt
from moeopt import InputError, save
from tests.mathprog.solve import solve
from tests.problems.agreement import assert_anchors
from tests.problems.layout.by_arrays import optimum
from tests.problems.layout.layout_random_instances import KINDS, copies_matter, random_instance
from tests.refusals import refused
from tests.rooms.core import Search
from tests.rooms.layout import (
    COSTS,
    HEURISTICS,
    Copies,
    Instance,
    Solution,
    bound_and_pack,
    differences,
    dual_copies,
    execute,
    execute_layout,
    facts,
    fields_of,
    fits,
    lanes,
    lower_bound,
    objective,
    objective_grid,
    places_of,
    two_localized,
    used_bytes,
    violations,
    within_memory,
)

EXACT = ("cp-sat", "milp", "mathprog", "bound-and-pack")
AMPLE = {"max_per_expert": 3, "expert_bytes": 4, "dimm_bytes": 999}

# Window 0 has experts 0 and 1, window 1 has 1 and 2, window 2 has 0 and 2, each 7 on NDP; there are
# two DIMMs. With one copy each, two experts share a DIMM, which costs 14 in their window.
WINDOWS: dict[str, Any] = {
    "name": "windows",
    "schema_version": 2,
    "dimms": 2,
    "hbm_slots": 0,
    "dimm_slots": None,
    "experts": 3,
    "dram_striped_ns": 0,
    "dram_localized_ns": 0,
    "scenarios": [
        dict.fromkeys(COSTS, [1000] * 3) | {"ndp_ns": [7] * 3, "weight": weight, "tokens": tokens}
        for weight, tokens in ((5, [1, 1, 0]), (5, [0, 1, 1]), (1, [1, 0, 1]))
    ],
}
# Expert 0 on the CPU: 5 if striped, 20 if localized; NDP 9. In window 1 expert 1 takes the CPU for
# 8 in any case, so that expert 0 is better on NDP: 9, against 8 + 5 = 13.
BOTH: dict[str, Any] = WINDOWS | {
    "name": "both",
    "experts": 2,
    "dimms": 1,
    "scenarios": [
        dict.fromkeys(COSTS, [1000] * 2)
        | {"ndp_ns": [9, 999], "cpu_striped_ns": [5, 8], "cpu_localized_ns": [20, 30]}
        | {"weight": 1, "tokens": tokens}
        for tokens in ([1, 0], [1, 1])
    ],
}


def permitting(data: dict[str, Any], **copies: int) -> Instance:
    """Return an instance that permits copies."""
    return Instance(**data, copies=AMPLE | copies)


ANCHORS = {
    # Windows 5 * 7 + 5 * 7 + 14: one of weight 1 has to wait.
    "one copy each": (permitting(WINDOWS, max_per_expert=1), 84),
    # A second copy of expert 0 lets window 2 have both DIMMs: 5 * 7 + 5 * 7 + 7.
    "a second copy": (permitting(WINDOWS, max_per_expert=2), 77),
    # Three experts of 4 bytes, one twice: two lie on each DIMM, 8 bytes.
    "just enough bytes": (permitting(WINDOWS, max_per_expert=2, dimm_bytes=8), 77),
    # With 7 no DIMM holds two, and three localized experts do not fit: one is striped, 2 bytes on
    # each, and costs 1000 in its windows, 1 and 5 times.
    "a byte too few": (permitting(WINDOWS, max_per_expert=2, dimm_bytes=7), 6035),
    # Two bytes of the eight are the KV cache's.
    "the KV cache takes its room": (
        permitting(WINDOWS, max_per_expert=2, dimm_bytes=8, reserved_bytes=1),
        6035,
    ),
    # Localized 9 + 9, striped 5 + 13.
    "striped or localized": (permitting(BOTH, max_per_expert=1), 18),
    # The CPU reads the striped copy in window 0, NDP the other one in window 1: 5 + 9.
    "striped and localized": (permitting(BOTH, max_per_expert=2), 14),
}


def test_hand_computed_anchors() -> None:
    """Each optimum is verifiable by hand from the comment beside it."""
    assert_anchors(ANCHORS)


@pytest.mark.parametrize("seeds", [range(2), pytest.param(range(2, 300), marks=pytest.mark.slow)])
def test_every_method_agrees_with_the_enumeration(seeds: range) -> None:
    """All exact methods give the optimum, from scratch; no bound is above, no rule below it.

    The engine runs a solution as the checker adds it up.
    """
    for seed in seeds:
        instance = copies_matter(seed)
        best = optimum(instance)
        for method in EXACT:
            options = {} if method == "bound-and-pack" else {"warm_start": False}
            result = solve(instance, method, **options)
            found = (result.status, result.objective, result.bound)
            assert found == ("optimal", best, best), (instance.name, method, result)
            assert execute(instance, result.solution).objective == best, instance.name
        for name in ("dual-copies", "two-localized", "copies-by-load", "lpt", "monde"):
            solution = HEURISTICS[name](instance)
            assert violations(instance, solution) == [], (instance.name, name)
            assert objective(instance, solution) >= best, (instance.name, name)
            assert execute(instance, solution).objective == objective(instance, solution)
            ends = [bar.end_ns for lane in lanes(instance, solution) for bar in lane.bars]
            assert max(ends) <= objective(instance, solution)
            assert facts(instance, solution)["localized"] == sum(
                dimm is not None for dimm in solution.dimm
            )
        assert lower_bound(instance) <= best, instance.name
        assert best % objective_grid(instance) == 0, instance.name


def test_the_own_method_brackets_the_optimum_by_itself() -> None:
    """Wait and see below, annealing above, on most instances at the optimum."""
    met = 0
    for seed in range(3):
        instance = copies_matter(seed)
        search, best = Search(limit_s=5.0), optimum(instance)
        bound_and_pack.solve(instance, search)
        assert search.bound <= best <= search.objective, instance.name
        met += search.objective == best
    assert met >= 2


GOOD: dict[str, Any] = {
    "resident": (False,) * 3,
    "dimm": (0, 1, None),
    "assignment": (("ndp", "ndp", None), (None, "ndp", "cpu"), ("ndp", None, "ndp")),
    "copies": ((1,), (), (0,)),
    "source": ((None, None, None), (None, None, None), (1, None, 0)),
}
"""Expert 0 on both DIMMs, expert 2 striped and on DIMM 0: 2 + 4 + 4 bytes, 2 + 4 + 4."""


@pytest.mark.parametrize(
    ("changes", "room", "rule", "words"),
    [
        ({"copies": ((1,), (), (0, 1))}, 999, "LA-C10", "expert 2 has 3 copies, at most 2"),
        ({"copies": ((0,), (), (0,)), "source": None}, 999, "LA-C10", "lie in one place"),
        ({"copies": ((1,), ())}, 999, "LA-C10", "copies has 2 entries for 3 experts"),
        ({}, 9, "LA-C11", "DIMM 0 has to hold 10 bytes of weights and has room for 9"),
        ({"copies": ((1,), (), (7,))}, 999, "LA-C2", "copies[2]: there is no DIMM 7"),
        ({"source": GOOD["source"][:2]}, 999, "LA-C2", "source has 2 rows for 3"),
        ({"source": ((None,), *GOOD["source"][1:])}, 999, "LA-C2", "source[0] has 1 entries"),
        (
            {"source": ((None, 0, None), *GOOD["source"][1:])},
            999,
            "LA-C2",
            "source[0][1]: expert 1 has no further copy on DIMM 0",
        ),
        (
            {"source": (*GOOD["source"][:2], (1, None, None))},
            999,
            "LA-C2",
            "expert 2 is not localized and cannot run on NDP",
        ),
    ],
)
def test_each_violation_is_named(changes: dict[str, Any], room: int, rule: str, words: str) -> None:
    """By the rule, with the culprit."""
    instance = permitting(WINDOWS, max_per_expert=2, dimm_bytes=room)
    found = violations(instance, Solution(instance="windows", **(GOOD | changes)))
    assert any(rule == name and words in sentence for name, sentence in found), found


def test_the_good_solution_is_good() -> None:
    """7 + 7, then 7 beside the CPU's 1000, then 7 on either DIMM."""
    solution = Solution(instance="windows", **GOOD)
    instance = permitting(WINDOWS, max_per_expert=2, dimm_bytes=10)
    assert violations(instance, solution) == []
    assert objective(instance, solution) == 5 * 7 + 5 * 1000 + 7
    assert used_bytes(instance, places_of(instance, solution)).tolist() == [10, 10]
    assert fields_of(places_of(instance, solution)) == (solution.dimm, solution.copies)
    [line] = [d for d in differences(instance, solution, changed(solution, copies=None)) if d[0]][
        :1
    ]
    assert line[2:] == ("localized and on 1 DIMM", "localized")


def changed(solution: Solution, **fields: Any) -> Solution:
    """Return a copy with other fields."""
    return solution.model_copy(update=fields | {"source": None})


def test_without_permission_there_is_one_copy() -> None:
    """A solution with copies is refused, the blind rules keep one each."""
    plain = Instance(**WINDOWS)
    assert ("LA-C10", "expert 0 has 2 copies, at most 1 are allowed") in violations(
        plain, Solution(instance="windows", **GOOD)
    )
    for rule in (dual_copies, two_localized):
        assert violations(plain, rule(plain)) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"copies": AMPLE | {"dimm_bytes": 5}},
            "copies.dimm_bytes: must be at least 6: one copy of each expert has to fit",
        ),
        (
            {"copies": AMPLE | {"dimm_bytes": 8, "reserved_bytes": 3}},
            "copies.dimm_bytes: must be at least 9: one copy of each expert has to fit",
        ),
        (
            {"copies": AMPLE | {"max_per_expert": 0}},
            "copies.max_per_expert: must be at least 1, not 0",
        ),
    ],
)
def test_wrong_fields_get_one_line(fields: dict[str, Any], message: str) -> None:
    """What is wrong, and where."""
    assert refused(Instance, **WINDOWS | {"copies": AMPLE} | fields) == message


def test_files_and_arrays(tmp_path: Any) -> None:
    """What is saved is loaded; arrays make the same instance."""
    instance = permitting(WINDOWS)
    save(instance, tmp_path / "i.json")
    assert moeopt.load(tmp_path / "i.json") == instance
    solution = solve(instance, "cp-sat").solution
    save(solution, tmp_path / "s.json")
    assert '"source"' in (tmp_path / "s.json").read_text()
    rows = WINDOWS["scenarios"]
    arrays = {name: [row[name] for row in rows] for name in ("tokens", "weight", *COSTS)}
    plain = {"dimms": 2, "hbm_slots": 0, "dram_striped_ns": 0, "dram_localized_ns": 0}
    made = Instance.from_arrays(**arrays, **plain, name="windows", copies=Copies(**AMPLE))
    assert made == instance
    assert Instance.from_arrays(**arrays, **plain).schema_version == 1


def test_one_window_needs_one_copy() -> None:
    """Where memory is ample: the lemma that makes wait and see a bound."""
    for seed in range(5):
        plain = random_instance(seed, KINDS[seed], experts=3)
        one = plain.model_copy(update={"scenarios": plain.scenarios[:1]})
        if not any(one.scenarios[0].tokens):
            continue
        several = Copies(max_per_expert=3, expert_bytes=1, dimm_bytes=999)
        free = one.model_copy(update={"schema_version": 2, "copies": several})
        assert solve(free, "cp-sat").objective == solve(one, "cp-sat").objective, plain.name


def test_more_copies_never_hurt_and_end_at_wait_and_see() -> None:
    """Copies everywhere, and no residents to share: each window has its own optimum."""
    falls = 0
    for seed in range(8):
        base = copies_matter(seed)
        base = base.model_copy(update={"hbm_slots": 0, "dimm_slots": None})
        values = []
        for most in (1, 2, 3):
            several = Copies(max_per_expert=most, expert_bytes=1, dimm_bytes=999)
            values.append(optimum(base.model_copy(update={"copies": several})))
        assert values == sorted(values, reverse=True), base.name
        falls += values[0] > values[1]
        alone = [
            optimum(base.model_copy(update={"copies": None, "scenarios": (scenario,)}))
            for scenario in base.scenarios
        ]
        assert values[-1] == sum(alone), base.name
    assert falls > 2


def test_dimms_are_only_names() -> None:
    """Copies on other DIMMs: the same objective."""
    instance = permitting(WINDOWS)
    solution = solve(instance, "cp-sat").solution
    other = {None: None, 0: 1, 1: 0}
    moved = solution.model_copy(
        update={
            "dimm": tuple(other[d] for d in solution.dimm),
            "copies": tuple(tuple(other[d] for d in of) for of in solution.copies),
            "source": tuple(tuple(other[d] for d in row) for row in solution.source),
        }
    )
    assert violations(instance, moved) == []
    assert objective(instance, moved) == objective(instance, solution)


def test_layouts_are_cut_to_the_memory() -> None:
    """One copy each: experts of full DIMMs are striped until all fit, as few as need be."""
    instance = permitting(WINDOWS, dimm_bytes=8)
    kept = within_memory(instance, places_of_one([0, 1, 0]))
    assert kept.tolist() == [0, 1, 0]
    tight = permitting(WINDOWS, dimm_bytes=7)
    assert within_memory(tight, places_of_one([0, 1, 0])).tolist() == [0, 1, -1]
    lies = places_of(tight, Solution(instance="windows", **GOOD))
    assert not fits(tight, lies)
    assert fits(permitting(WINDOWS, dimm_bytes=10), lies)


def places_of_one(dimm: list[int]) -> Any:
    """Return DIMMs as an array."""
    import numpy as np

    return np.array(dimm, dtype=np.int64)


def test_a_decision_with_copies_runs_on_later_windows() -> None:
    """Expert 0 is on both DIMMs and runs where there is room; without permission it is refused."""
    instance = permitting(WINDOWS, max_per_expert=2)
    decision = Solution(instance="windows", **GOOD)
    run = execute_layout(instance, decision)
    assert violations(instance, run.solution) == []
    assert run.makespans_ns == (7, 1000, 7) or run.makespans_ns == (7, 7, 7)
    assert run.objective_ns == objective(instance, run.solution)
    with pytest.raises(InputError, match="permit one copy"):
        execute_layout(Instance(**WINDOWS), decision)
