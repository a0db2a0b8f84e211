"""What rules know: each decides by what its paper gives it, and says which counts it had."""

from typing import Any

import pytest

import moeopt
from moeopt import save
from tests.mathprog.solve import solve
from tests.refusals import refused
from tests.rooms.core import HINDSIGHT, NOTHING
from tests.rooms.placement import ASSUMPTIONS, HEURISTICS, Instance, Known, Solution
from tests.rooms.problems import get_problem

PROMPTS = {"prefill_counts": [[0, 4, 3, 1], [5, 0, 1, 2]]}
SCORES = {"prefill_scores": [[0, 10, 30, 5], [20, 0, 1, 9]], "score_scale": 10}
PROFILE = {"profile_counts": [[0, 1, 2, 9], [1, 0, 3, 2]]}


def informed(known: dict[str, Any] | None, **changes: Any) -> Instance:
    """Return two layers of four experts whose steps use expert 0 of both most, then expert 1."""
    steps = [[[[0, 9], [1, 2]], [[1, 8], [0, 9]]]]
    data: dict[str, Any] = {"layers": 2, "experts": 4, "gpu_slots": 2, "steps": steps}
    data |= {"gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 10], "layer_offload_fixed_ns": 3}
    version = 1 if known is None else 2
    return Instance(name="informed", schema_version=version, known=known, **(data | changes))


def placed(instance: Instance, method: str) -> tuple[tuple[int, ...], ...]:
    """Return the experts that a method puts on the GPU."""
    solution = solve(instance, method).solution
    assert isinstance(solution, Solution)
    return solution.gpu


@pytest.mark.parametrize(
    ("method", "gpu", "knew"),
    [
        ("uniform-x", ((1,), (0,)), "prefill counts"),
        # shares of counts .50 .375 .125 and of scores .22 .67 .11: expert 2 before expert 1
        ("importance", ((2,), (0,)), "prefill counts and scores"),
        ("importance-stop", ((2,), (0,)), "prefill counts and scores, stops in hindsight"),
        ("frequency", ((3,), (2,)), "offline profile"),
        ("per-layer-frequency", ((3,), (2,)), "offline profile"),
        ("fiddler", ((3,), ()), "offline profile"),
        ("uniform-x-hindsight", ((0,), (0,)), HINDSIGHT),
        ("importance-hindsight", ((0,), (0,)), HINDSIGHT),
        ("frequency-hindsight", ((0,), (0,)), HINDSIGHT),
        ("per-layer-frequency-hindsight", ((0,), (0,)), HINDSIGHT),
        ("fiddler-hindsight", ((0,), ()), HINDSIGHT),
        ("offload-time", ((0,), (0,)), HINDSIGHT),
        ("front-loading", ((0, 1), ()), NOTHING),
    ],
)
def test_each_rule_decides_by_its_own(
    method: str, gpu: tuple[tuple[int, ...], ...], knew: str
) -> None:
    """Prompts, profile and steps disagree about every expert."""
    instance = informed(PROMPTS | SCORES | PROFILE)
    assert placed(instance, method) == gpu
    assert get_problem("placement").information(method, instance) == knew


@pytest.mark.parametrize(
    ("known", "importance", "frequency"),
    [
        (None, HINDSIGHT, HINDSIGHT),
        (PROMPTS, "prefill counts", "prefill counts"),
        (PROFILE, "offline profile", "offline profile"),
        (PROMPTS | PROFILE, "prefill counts", "offline profile"),
        (PROMPTS | SCORES, "prefill counts and scores", "prefill counts"),
    ],
)
def test_the_next_best_where_something_is_missing(
    known: dict[str, Any] | None, importance: str, frequency: str
) -> None:
    """An instance of schema 1 leaves the steps alone, and the label does not hide it."""
    instance, problem = informed(known), get_problem("placement")
    assert problem.information("importance", instance) == importance
    assert problem.information("frequency", instance) == frequency
    source = {"offline profile": ((3,), (2,)), HINDSIGHT: ((0,), (0,))}
    assert placed(instance, "frequency") == source.get(frequency, ((1,), (0,)))
    if known is None:
        for rule in ("frequency", "per-layer-frequency", "importance", "uniform-x", "fiddler"):
            assert placed(instance, rule) == placed(instance, f"{rule}-hindsight")


def test_importance_by_hand() -> None:
    """S is 0 .361 .521 .118 in the first layer and .646 0 .079 .275 in the second."""
    three = informed(PROMPTS | SCORES, gpu_slots=3)
    assert placed(three, "importance") == ((2,), (0,))
    assert placed(three, "importance[per_layer=remainder]") == ((1, 2), (0,))
    assert placed(informed(PROMPTS | SCORES, gpu_slots=4), "importance") == ((1, 2), (0, 3))
    # shares of 1/4 each in the first layer, of 5/8 and 3/8 in the second
    flat = informed({"prefill_counts": [[1, 1, 1, 1], [5, 0, 3, 0]]})
    assert placed(flat, "importance") == ((0,), (0,))
    assert placed(flat, "importance[per_layer=global]") == ((), (0, 2))
    # experts 0 and 1: counts differ by 1 of 11, scores by 3 of 23
    close = {"prefill_counts": [[3, 2, 3, 3]] * 2, "score_scale": 10}
    close |= {"prefill_scores": [[10, 13, 0, 0]] * 2}
    assert placed(informed(close), "importance") == ((1,), (1,))


def test_ties_go_to_the_lower_layer_and_the_lower_expert() -> None:
    """All counts are one: the first layer's first experts, or the first one of each layer."""
    instance = informed({"profile_counts": [[1] * 4] * 2})
    assert placed(instance, "frequency") == ((0, 1), ())
    assert placed(instance, "per-layer-frequency") == ((0,), (0,))


def test_every_assumption_of_a_method_can_be_chosen() -> None:
    """Every value of every assumption gives a placement."""
    instance = informed(PROMPTS | SCORES | PROFILE)
    for assumption in ASSUMPTIONS:
        for method in assumption.methods:
            for value in assumption.values:
                assert placed(instance, f"{method}[{assumption.name}={value}]")
    assert {m for s in ASSUMPTIONS for m in s.methods} <= set(HEURISTICS)


@pytest.mark.parametrize("method", ["price-and-swap", "cp-sat", "milp", "mathprog", "brute-force"])
def test_exact_methods_ignore_it(method: str) -> None:
    """The same optimum with and without."""
    found = {solve(informed(known), method).objective for known in (None, PROMPTS | SCORES)}
    assert found == {solve(informed(None), "price-and-swap").objective}


def test_written_only_where_it_is_there(tmp_path: Any) -> None:
    """A file of schema 1 stays as it was; one of schema 2 is read as it was written."""
    for known in (None, PROMPTS, PROMPTS | SCORES | PROFILE):
        instance = informed(known)
        moeopt.save(instance, tmp_path / "i.json")
        assert moeopt.load(tmp_path / "i.json") == instance
        text = (tmp_path / "i.json").read_text()
        assert ("known" in text, "profile" in text) == (bool(known), len(known or ()) > 1)
    arrays = Instance.from_arrays(
        tokens=[[[1, 2]]],
        gpu_slots=1,
        gpu_expert_ns=[0, 1],
        offload_expert_ns=[0, 2],
        known=Known(prefill_counts=[[3, 4]]),
    )
    assert (arrays.schema_version, arrays.known) == (2, Known(prefill_counts=((3, 4),)))


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        ({}, "known: must have prefill_counts or profile_counts"),
        ({"prefill_counts": [[1] * 4]}, "known.prefill_counts: must have one list per layer, 2"),
        ({"profile_counts": [[1] * 4, [1]]}, "profile_counts[1]: must have one entry per expert"),
        (PROMPTS | {"prefill_scores": [[1] * 4] * 2}, "known.score_scale: must be given with"),
        (PROMPTS | {"score_scale": 1}, "known.score_scale: must be given with"),
        (PROFILE | SCORES, "known.prefill_scores: needs prefill_counts"),
        ({"profile_counts": [[-1] * 4] * 2}, "known.profile_counts[0][0]: must be at least 0"),
        (PROFILE | {"later_counts": []}, "known.later_counts: is not a known key"),
    ],
)
def test_refused_in_one_line(known: dict[str, Any], reason: str, tmp_path: Any) -> None:
    """Each with the field's path."""
    data = informed(PROFILE).model_dump(mode="json") | {"known": known}
    save(data, tmp_path / "i.json")
    assert reason in refused(moeopt.load, tmp_path / "i.json")
