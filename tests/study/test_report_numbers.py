"""What the report computes: profiles, proofs, dependences, restrictions, differing decisions."""

from itertools import pairwise
from typing import Any

import pytest

from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.problems import get_problem
from tests.rooms.study import NAMED as WRITTEN_OUT
from tests.rooms.study import (
    Curve,
    Dependence,
    Line,
    Study,
    Takeaway,
    amount,
    dependences,
    differences,
    instances_of,
    kind_of,
    labels,
    lines,
    opening,
    own_heuristic,
    plain,
    prices,
    profiles,
    proof_chart,
    proof_times,
    range_chart,
    seconds,
    sentence,
    skew,
    summarise,
    takeaways,
    traits_of,
    worst_cases,
)
from tests.study.rows_made import made, made_row

Rows = list[Any]


@pytest.fixture
def rows() -> Rows:
    """Return two heuristics and a proof on four instances, one of them open."""
    return [
        made_row("trimoe", "a", 10, 10),
        made_row("greedy", "a", 11, 10),
        made_row("threshold", "a", 10, 10, proves=True, solve_s=2.0),
        made_row("trimoe", "b", 15, 10),
        made_row("greedy", "b", 10, 10),
        made_row("threshold", "b", 10, 10, proves=True, solve_s=1.0),
        made_row("trimoe", "c", 30, 10),
        made_row("greedy", "c", None, 10),
        made_row("threshold", "c", 10, 10, solve_s=60.0),
        made_row("trimoe", "d", 12, None),
        made_row("threshold", "d", 11, None, solve_s=60.0),
    ]


def test_a_profile_is_the_share_within_a_factor(rows: Rows) -> None:
    """Of the instances with a proven optimum; no solution is within no factor."""
    curves = {curve.name: curve for curve in profiles(Study(made(rows)).labelled)}
    trimoe, greedy = curves["trimoe"], curves["greedy"]
    assert list(trimoe.x) == [1.0, 1.5, 3.0]
    assert [trimoe.at(x) for x in (0.99, 1, 1.49, 1.5, 2.99, 3)] == [
        *(0, 1 / 3, 1 / 3),
        *(2 / 3, 2 / 3, 1),
    ]
    assert [greedy.at(x) for x in (1, 1.1, 100)] == [1 / 3, 2 / 3, 2 / 3]


def test_a_failed_solve_is_within_no_factor(rows: Rows) -> None:
    """It counts if the instance's optimum is known, under the name of the method's other solves."""
    failed = {"status": "failed", "failure": "rule"}
    rows += [made_row("greedy", "b", None, 10, seed=1, **failed)]
    rows += [made_row("greedy", "d", None, None, **failed)]
    [greedy] = [c for c in profiles(Study(made(rows)).labelled) if c.name == "greedy"]
    assert greedy.at(100) == 2 / 4


def test_proofs_count_those_of_the_method_itself(rows: Rows) -> None:
    """Two of four, by time; a solution that another method proved optimal is no proof."""
    [curve] = proof_times(Study(made(rows)).labelled)
    assert (curve.name, list(curve.x), list(curve.y)) == ("threshold", [1.0, 2.0], [1.0, 2.0])


def test_takeaways_count_each_instance_once(rows: Rows) -> None:
    """Also one of two families; the published heuristic is the one that is talked about."""
    again = made_row("trimoe", "c", 30, 10, family="another")
    study = Study(made([*rows, again]))
    assert list(study.problems["tri_domain"].key) == [row.record.key for row in rows]
    [t] = takeaways(study)
    assert (t.method, t.instances, t.proven, t.compared, t.optimal) == ("trimoe", 4, 3, 3, 1)
    assert (t.middle, t.worst, t.worst_instance) == (0.5, 2.0, "c")
    assert "50.0 % more than the optimum at the median and 200.0 % at worst (c)" in sentence(t)
    assert "optimal on 1 of 3; 3 of 4 optima proven" in sentence(t)
    words = opening([t], 11)
    assert words.startswith("11 solves of 4 instances of 1 problem. The optimum is proven for 3 of")
    assert "trimoe in tri_domain, 200.0 % above" in words


@pytest.mark.parametrize(
    ("middle", "said"),
    [(0.0, "at it"), (0.0002, "less than 0.1 % above it"), (0.034, "3.4 % above it")],
)
def test_the_opening_compares_problems(middle: float, said: str) -> None:
    """The closest and the farthest; little is not called nothing."""
    near = Takeaway("deferral", "How many", 4, 4, "saturate", "K", 4, 1, middle, 0.5, "a")
    far = Takeaway("cache", "What the GPU has", 4, 2, "uniform-ways", "C", 2, 0, 0.4, 0.9, "b")
    words = opening([far, near], 20)
    assert f"closest to the optimum in deferral (how many), at the median {said}, and" in words
    assert "farthest from it in cache (what the GPU has): 40.0 % above." in words
    assert "uniform-ways in cache, 90.0 % above the optimum" in words
    assert ("costs less than 0.1 % more" in sentence(near)) == (0 < middle < 0.001)


def test_without_the_published_heuristic_another_speaks(rows: Rows) -> None:
    """The first heuristic of the rows; with exact methods alone none."""
    solves = made(rows)
    others = solves[solves.method != "trimoe"]
    assert own_heuristic("tri_domain", others) == ("greedy", "")
    [t] = takeaways(Study(solves[solves.method == "threshold"]))
    assert sentence(t) == "no heuristic was run; 3 of 4 optima proven."


def test_the_worst_case_names_what_differs() -> None:
    """The decisions that differ by tokens, at most ten, and how many more there are."""
    instance = random_instance(3, experts=9)
    solution = get_problem("tri_domain").Solution()
    best = solution(instance=instance.name, assignment=("cpu",) * 9)
    ours = solution(instance=instance.name, assignment=("gpu",) * 8 + ("cpu",))
    rows = [
        made_row("trimoe", "x", 20, 10, solution=ours),
        made_row("threshold", "x", 10, 10, solution=best, proves=True),
        made_row("trimoe", "unknown", 99, 10, solution=ours),
    ]
    study = Study(made(rows))
    mine = study.frame[study.frame.method == "trimoe"]
    [case] = worst_cases(mine, study.optima(study.frame), lambda _: instance)
    changed = sorted(instance.experts[:8], key=lambda expert: -expert.tokens)
    assert [what for what, _, _ in case.decisions] == [
        f"expert {e.expert} ({e.tokens} token{'s' if e.tokens > 1 else ''})" for e in changed
    ]
    assert {(a, b) for _, a, b in case.decisions} == {("gpu", "cpu")}
    assert case.others == 0
    assert case.panels[0].title == "trimoe: 2e-05 ms (+100.0 %)"
    assert case.panels[1].title == "the optimum: 1e-05 ms"


def test_no_more_than_ten_decisions_are_written_out() -> None:
    """The rest is counted."""
    instance = random_instance(3, "no contention", experts=40)
    solution = get_problem("tri_domain").Solution()
    best, ours = (solution(instance="x", assignment=(where,) * 40) for where in ("cpu", "gpu"))
    rows = [
        made_row("trimoe", "x", 20, 10, solution=ours),
        made_row("threshold", "x", 10, 10, solution=best, proves=True),
    ]
    study = Study(made(rows))
    mine = study.frame[study.frame.method == "trimoe"]
    [case] = worst_cases(mine, study.optima(study.frame), lambda _: instance)
    assert len(case.decisions) == WRITTEN_OUT == 10
    assert case.others == 30


def test_one_worst_case_of_a_family() -> None:
    """The worst of each; a case without excess is none."""
    instance = random_instance(0, experts=2)
    solution = get_problem("tri_domain").Solution()
    one = solution(instance="x", assignment=("cpu", "cpu"))
    excesses = {"a": ("f", 20), "b": ("f", 30), "c": ("g", 15), "d": ("h", 10)}
    rows = []
    for name, (family, cost) in excesses.items():
        rows.append(made_row("trimoe", name, cost, 10, family=family, solution=one))
        rows.append(made_row("threshold", name, 10, 10, family=family, solution=one, proves=True))
    study = Study(made(rows))
    mine = study.frame[study.frame.method == "trimoe"]
    cases = worst_cases(
        mine, study.optima(study.frame), dict.fromkeys(excesses, instance).__getitem__
    )
    assert [case.row.instance_hash for case in cases] == ["b", "c"]


def test_decisions_of_other_problems_are_named() -> None:
    """Layers with counts: what differs most first."""
    solution = get_problem("cache").Solution()
    ours, best = (solution(instance="x", ways=ways) for ways in ((4, 4, 0), (4, 3, 5)))
    assert differences("cache", None, ours, best) == [
        ("layer 2", "0 ways", "5 ways"),
        ("layer 1", "4 ways", "3 ways"),
    ]


def test_placements_differ_by_expert_and_tokens() -> None:
    """An expert on one side in one solution and on the other side in the other one."""
    instance = (
        get_problem("placement")
        .Instance()
        .model_validate(
            {
                "name": "x",
                **{"layers": 1, "experts": 3, "gpu_slots": 1, "layer_offload_fixed_ns": 0},
                **{"gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 2]},
                "steps": [[[[0, 1], [2, 4]]], [[[2, 3]]]],
            }
        )
    )
    solution = get_problem("placement").Solution()
    ours, best = (solution(instance="x", gpu=gpu) for gpu in (((0,),), ((2,),)))
    assert differences("placement", instance, ours, best) == [
        ("layer 0, expert 2 (7 tokens)", "other side", "GPU"),
        ("layer 0, expert 0 (1 token)", "GPU", "other side"),
    ]


def test_a_restriction_is_priced_between_twins() -> None:
    """Instances that differ in nothing else; names and provenance do not count."""
    base = {
        **{"problem": "placement", "layers": 1, "experts": 2, "gpu_slots": 1},
        **{"gpu_expert_ns": [0, 1], "offload_expert_ns": [0, 2], "layer_offload_fixed_ns": 0},
        "steps": [[[[0, 1], [1, 4]]]],
    }
    model = get_problem("placement").Instance()
    free, twin, other = (
        model.model_validate(base | {"name": name, "provenance": {"seed": name}} | more)
        for name, more in (
            ("free", {}),
            ("twin", {"restriction": "whole-layers"}),
            ("other", {"restriction": "whole-layers", "gpu_slots": 2}),
        )
    )
    instances = {"free": free, "twin": twin, "other": other}
    rows = [
        made_row("price-and-swap", name, cost, cost, problem="placement", proves=True)
        for name, cost in (("free", 10), ("twin", 13), ("other", 50))
    ]
    traits = {name: traits_of(instance) for name, instance in instances.items()}
    [price] = prices("placement", made(rows), traits)
    assert (price.restriction, price.restricted, price.free) == (
        *("restriction = whole-layers", "twin"),
        "free",
    )
    assert price.price == pytest.approx(0.3)
    assert prices("placement", made(rows[1:]), traits) == []


def test_fields_are_numbers() -> None:
    """From the data, else from the options; a text, flag or NaN is left out."""
    instance = random_instance(1)
    found = traits_of(instance).numbers
    tokens = [expert.tokens for expert in instance.experts]
    assert found["DIMMs"] == instance.dimms
    assert found["skew"] == skew(instance) == max(tokens) * len(tokens) / sum(tokens)
    for odd in (float("nan"), float("inf"), 10**400):
        options = {"batch": 64, "threads": "<b>", "cores": True, "cpu_scale": odd}
        named = instance.model_copy(update={"provenance": {"options": options}})
        assert traits_of(named).numbers == {**found, "batch": 64}
    for strange in ([], "text", 3):
        assert traits_of(instance.model_copy(update={"provenance": {"options": strange}})).numbers


def test_dependence_needs_different_values(rows: Rows) -> None:
    """Medians by value; a field with one value shows nothing."""
    one = random_instance(1)
    batches = {"a": 64, "b": 64, "c": 128}
    instances = {
        name: one.model_copy(update={"provenance": {"options": {"batch": batch}}})
        for name, batch in batches.items()
    }
    traits = {name: traits_of(instance) for name, instance in instances.items()}
    [found] = dependences(made([row for row in rows if row.record.method == "trimoe"]), traits)
    assert found.name == "batch"
    assert found.table == [("64", 2, 0.25, 0.5), ("128", 1, 2.0, 2.0)]


def test_many_values_are_cut_into_four() -> None:
    """Of about equal size."""
    found = Dependence("skew", [(float(value), value / 10) for value in range(20)])
    assert [row[0] for row in found.table] == ["0 to 4", "5 to 9", "10 to 14", "15 to 19"]
    assert [row[1] for row in found.table] == [5] * 4
    assert found.table[3][3] == 1.9
    two = Dependence("skew", [(1.25, 0.5), (3.0, 0.1)])
    assert two.table == [("1.25 to 1.25", 1, 0.5, 0.5), ("3 to 3", 1, 0.1, 0.1)]


def test_numbers_have_units() -> None:
    """Times in milliseconds, other entries by name, and short seconds."""
    assert amount("tri_domain", 8_105_000) == "8.105 ms"
    assert amount("deferral", (2_000_000, 3)) == "2 ms, total penalty 3"
    assert amount("bitwidth", 3_894_550) == "summed loss 3,894,550"
    assert amount("placement", 15_917_250_000) == "15,917 ms"
    assert amount("tri_domain", None) == "-"
    assert [seconds(value) for value in (0.0, 0.0123, 12.3)] == ["< 0.001", "0.012", "12"]


def test_a_limit_that_nobody_felt_is_not_told() -> None:
    """A heuristic with one limit is called by its name; what was cut short says by what."""
    felt = made_row("cp-sat", "a", 11, 10, time_limit_s=2.0, termination="time_limit")
    rows = [made_row("greedy", "a", 12, 10, time_limit_s=10.0), felt]
    assert labels(made(rows)) == ["greedy", "cp-sat 2 s"]
    twice = [*rows, made_row("greedy", "a", 12, 10, time_limit_s=20.0)]
    assert labels(made(twice)) == ["greedy 10 s", "cp-sat 2 s", "greedy 20 s"]
    assert labels(made(rows[1:])) == ["cp-sat"]


def test_labels_are_cut_and_printable() -> None:
    """A store may hold any text."""
    assert plain("a\x07b\ud800") == "a?b?"
    assert len(plain("x" * 500)) == 48


def test_long_names_fit() -> None:
    """A rule's name has its file in it; a chart's labels stay on the page and apart."""
    names = [f"my_rules.py:earliest_finish source 1a2b3c4{n}" for n in range(3)]
    lines = [Line(name, "step", 0.0, 0.1, 5.0, 0.5, is_published=False) for name in names]
    for figure in (range_chart(lines), proof_chart([], dict.fromkeys(names, 24))):
        figure.draw_without_rendering()
        [axis] = figure.axes
        for text in [*axis.get_yticklabels(), *axis.texts]:
            box = text.get_window_extent()
            assert 0 <= box.x0 < box.x1 <= figure.bbox.x1, text.get_text()
    heights = [text.get_window_extent() for text in axis.texts]
    assert all(a.y1 <= b.y0 for a, b in pairwise(heights))


def test_methods_without_a_proof_are_named() -> None:
    """With how many they were asked for."""
    figure = proof_chart([Curve("threshold", [0.1, 2.0], [1.0, 2.0])], {"threshold": 3, "milp": 4})
    texts = [text.get_text() for text in figure.axes[0].texts]
    assert texts == ["threshold: 2 of 3", "milp: 0 of 4"]


@pytest.mark.parametrize("times", [[0.0], [1e-5, 7e-5]])
def test_proofs_shorter_than_the_axis_are_drawn(times: list[float]) -> None:
    """A quick processor proves a small instance sooner than any time that the axis shows."""
    drawn = proof_chart([Curve("enumerate", times, [1.0] * len(times))], {"enumerate": 2})
    [axis] = drawn.axes
    start, end = axis.get_xlim()
    assert 0 < start < end
    assert all(start <= x <= end for line in axis.lines for x in line.get_xdata())


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("", ""),
        ("nothing", "none"),
        ("current loads", "step"),
        ("a forecast; then current loads", "before"),
        ("prompts of 20 sequences", "before"),
        ("current loads, or the measured loads (hindsight)", "hindsight"),
    ],
)
def test_what_a_rule_knew_has_a_kind(words: str, kind: str) -> None:
    """The most that it knew anywhere."""
    assert kind_of(words) == kind


def test_the_overview_keeps_the_published_rule() -> None:
    """Among the best twelve, in order; exact methods and what cannot be compared are not in it."""
    rows = [made_row(f"better{n:02}", "a", 11 + n, 10) for n in range(14)]
    rows += [made_row("trimoe", "a", 90, 10), made_row("milp", "a", 10, 10, proves=True)]
    rows += [made_row("greedy", "a", None, 10)]
    found = lines(list(summarise(made(rows)).itertuples()), {"trimoe"})
    assert [line.label for line in found] == [*(f"better{n:02}" for n in range(11)), "trimoe"]
    assert [line.is_published for line in found] == [False] * 11 + [True]


def test_instances_are_listed_by_the_published_rules_loss() -> None:
    """With the worst of several solves; an open one is last and says so."""
    rows = [
        made_row("trimoe", "a", 11, 10),
        made_row("trimoe", "b", 12, 10),
        made_row("trimoe", "b", 15, 10, seed=1),
        made_row("greedy", "b", 30, 10),
        made_row("trimoe", "c", 99, None),
        made_row("milp", "b", 10, 10, proves=True),
    ]
    found = instances_of("tri_domain", Study(made(rows)).labelled)
    assert list(found.methods) == ["trimoe", "greedy"]
    assert [(one.name, one.is_proven, one.excess) for one in found.rows] == [
        ("b", True, {"trimoe": 0.5, "greedy": 2.0}),
        ("a", True, {"trimoe": pytest.approx(0.1)}),
        ("c", False, {}),
    ]
