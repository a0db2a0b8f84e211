"""In-sample against held-out: which instances are twins, and what decisions cost on the later."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import moeopt
from tests.rooms.problems import get_problem
from tests.rooms.study import (
    ONE_DECISION,
    OPTIMUM,
    Campaign,
    HeldOutRow,
    Part,
    Store,
    Study,
    held_out,
    make_plan,
    make_settings,
    store_module,
    to_html,
)
from tests.study.rows_made import made, made_row, placement, stored


def gpu(instance: str, expert: int) -> Any:
    """Return the solution with one expert on the GPU."""
    return get_problem("placement").Solution()(instance=instance, gpu=((expert,),))


def solves(instance: Any, **experts: int) -> list[Any]:
    """Return a proof and the solves of the named methods, each with its one expert."""
    used = [row[0][0][0] for row in instance.model_dump(mode="json")["steps"]]
    cost = {expert: sum(1 if at == expert else 10 for at in used) for expert in range(3)}
    best = min(cost, key=lambda expert: cost[expert])
    optimum = cost[best]
    rows = [
        made_row(
            method, instance.name, cost[of], optimum, problem="placement",
            solution=gpu(instance.name, of),
        )
        for method, of in experts.items()
    ]  # fmt: skip
    proof = made_row(
        "price-and-swap", instance.name, optimum, optimum, problem="placement", proves=True,
        solution=gpu(instance.name, best),
    )  # fmt: skip
    return [*rows, proof]


def found(*instances: Any, **experts: int) -> list[HeldOutRow]:
    """Return the table of instances on which the named methods chose so, without hindsight."""
    return [row for row in whole(*instances, **experts) if row.method != ONE_DECISION]


def whole(*instances: Any, **experts: int) -> list[HeldOutRow]:
    """Return the table of instances on which the named methods chose so."""
    names = {method.replace("_", "-"): expert for method, expert in experts.items()}
    rows = [row for instance in instances for row in solves(instance, **names)]
    by_name = {instance.name: instance for instance in instances}
    with stored(by_name) as store:
        study = Study(made(rows), store)
        labelled = study.frame.assign(label=study.frame.method + " (hindsight)")
        return held_out("placement", labelled, study.optima(labelled), store, study.traits)


def test_a_decision_is_used_later() -> None:
    """By hand: first 0, 0, 1 and then 1, 1, 2; keeping 0 costs 30 there, keeping 1 the best, 12."""
    earlier = placement("earlier", [0, 0, 1], 0)
    later = placement("later", [1, 1, 2], 3)
    best, frequency = found(earlier, later, frequency=1)
    assert (best.method, best.pairs) == (OPTIMUM, 1)
    assert best.known == 0
    assert best.later == pytest.approx(30 / 12 - 1)
    known = pytest.approx(21 / 12 - 1)
    assert frequency == HeldOutRow("frequency", "next", 1, 1, known, 0.0, None, 0.0)


def test_the_median_and_the_worst_of_several() -> None:
    """One earlier instance has two later twins: one decision."""
    instances = [
        placement("a", [0, 0, 1], 0),
        placement("b", [1, 1, 2], 3),
        placement("c", [0, 0, 2], 3),
    ]
    [best] = found(*instances)
    assert (best.decisions, best.pairs) == (1, 2)
    assert (best.later, best.later_max) == (pytest.approx(0.75), pytest.approx(1.5))


def test_one_decision_in_hindsight_and_the_share_of_it() -> None:
    """By hand: later twins 1, 1, 2 and 0, 0, 2 cost 12 each; 1 or 0 for both costs 12 + 30.

    Keeping 2 costs 21 + 21 = 42 as well; the sample rule keeps 0, so that nothing is to be gained.
    With 1, 1, 2 and 1, 1, 1 later, keeping 1 is best, 12 + 3; the sample rule 60, keeping 2 51.
    """
    earlier = placement("a", [0, 0, 1], 0)
    apart = [placement("b", [1, 1, 2], 3), placement("c", [0, 0, 2], 3)]
    hindsight, best, sample = whole(earlier, *apart, frequency_hindsight=0)
    assert (hindsight.method, hindsight.decisions, hindsight.pairs) == (ONE_DECISION, 1, 2)
    assert (hindsight.later, hindsight.gap) == (pytest.approx(42 / 24 - 1), 0)
    assert (best.share, sample.share) == (None, None)
    alike = [placement("b", [1, 1, 2], 3), placement("c", [1, 1, 1], 3)]
    rows = {row.method: row for row in whole(earlier, *alike, frequency_hindsight=0, uniform_x=2)}
    assert rows[ONE_DECISION].later == 0
    assert rows["frequency-hindsight"].share == 0
    assert rows[OPTIMUM].share == 0
    assert rows["uniform-x"].share == pytest.approx((60 - 51) / (60 - 15))
    assert all(row.schedule == "" for row in rows.values())


def test_a_row_for_each_distance() -> None:
    """Adjacent steps apart from those that come after others."""
    steps = {0: [0, 0, 1], 3: [0, 0, 1], 6: [1, 1, 2], 17: [2, 2, 2]}
    rows = found(*(placement(f"at {first}", used, first) for first, used in steps.items()))
    assert [(row.distance, row.decisions, row.pairs) for row in rows] == [
        ("next", 2, 2),  # 0 to 3, 3 to 6
        ("1-9 steps on", 2, 2),  # 0 to 6, 6 to 17
        ("10-99 steps on", 2, 2),  # 0 to 17, 3 to 17
    ]
    assert [row.later for row in rows] == [
        pytest.approx((0 + 1.5) / 2), pytest.approx((1.5 + 9) / 2), pytest.approx((9 + 9) / 2),
    ]  # fmt: skip


def test_an_interval_from_three_traces_on() -> None:
    """Whole traces are drawn, as in all tables; none for two."""
    later = {1: [0, 1, 1], 2: [1, 1, 1], 3: [0, 0, 1], 4: [0, 2, 2], 5: [1, 1, 2], 6: [2, 2, 2]}
    pairs = [
        placement(f"{layer} at {first}", used, first, layer=layer)
        for layer, then in later.items()
        for first, used in ((0, [0, 0, 1]), (3, then), (6, [0, 0, 1]))
    ]

    def of(traces: int) -> HeldOutRow:
        rows = [row for one in pairs for row in solves(one)]
        tagged = [
            replace(r, tags={"cluster": str(int(r.record.instance[0]) % traces)}) for r in rows
        ]
        with stored({one.name: one for one in pairs}) as store:
            study = Study(made(tagged), store)
            best = study.optima(study.frame)
            found = held_out("placement", study.labelled, best, store, study.traits)
        [further] = [r for r in found if (r.method, r.distance) == (OPTIMUM, "1-9 steps on")]
        return further

    assert of(2).interval is None
    assert (of(3).decisions, of(3).pairs, of(3).interval) == (6, 6, (0.0, 0.0))


def test_loads_of_a_trace_that_reads_its_text_twice_are_no_twins() -> None:
    """Their provenance says so."""
    first, then = placement("earlier", [0, 0, 1], 0), placement("later", [1, 1, 2], 3)
    assert found(first, then)
    both = [
        placement(one.name, used, at, contaminated="text read twice")
        for one, used, at in ((first, [0, 0, 1], 0), (then, [1, 1, 2], 3))
    ]
    assert found(*both) == []
    assert found(first, both[1]) == []


@pytest.mark.parametrize(
    "other",
    [
        placement("later", [1, 1, 2], 2),  # overlaps
        placement("later", [1, 1], 3),  # another length
        placement("later", [1, 1, 2], 3, machine="another"),
        placement("later", [1, 1, 2], None),
        placement("later", [1, 1, 2], 3, options=["not", "options"]),
    ],
)
def test_what_is_not_a_twin(other: Any) -> None:
    assert found(placement("earlier", [0, 0, 1], 0), other, frequency=1) == []


def test_without_provenance_there_are_no_twins() -> None:
    earlier, later = placement("earlier", [0], 0), placement("later", [1], 1)
    bare = [one.model_copy(update={"provenance": None}) for one in (earlier, later)]
    assert found(earlier, later)
    assert found(*bare) == []


def test_a_decision_that_does_not_fit_is_left_out() -> None:
    """Provenance may say anything: here it hides that the later GPU is smaller."""
    earlier, later = placement("earlier", [0], 0), placement("later", [1], 1)
    small = later.model_copy(update={"gpu_slots": 0})
    assert found(earlier, small) == []


@pytest.mark.parametrize(
    ("problem", "earlier", "later", "more"),
    [
        ("relayout", {"loads": "predicted"}, {"loads": "actual"}, {"batch": 32, "step": 8}),
        (
            "layout",
            {"first_window": 0},
            {"first_window": 2},
            {"batch": 128, "drawn_windows": 4, "hbm_slots": 2},
        ),
    ],
)
def test_generated_twins_are_known(
    problem: str, earlier: dict[str, Any], later: dict[str, Any], more: dict[str, Any]
) -> None:
    """What the generators say suffices, and no decision beats the optimum in hindsight."""
    common = {"machine": "trimoe", "model": "qwen3-235b-a22b", "workload": "trimoe-skew"} | more
    instances = {
        name: moeopt.generate(problem, name=name, seed=0, **common, **which)
        for name, which in (("earlier", earlier), ("later", later))
    }
    heuristics = {"relayout": "benefit-greedy", "layout": "lpt"}
    rows = []
    for name, instance in instances.items():
        result = moeopt.solve(instance, heuristics[problem])
        rows.append(
            made_row(
                result.method, name, result.objective, 1, problem=problem, solution=result.solution
            )
        )
    with stored(instances) as store:
        study = Study(made(rows), store)
        which = study.labelled, study.optima(study.frame), store, study.traits
        hindsight, one, by_rule = held_out(problem, *which)
    assert (hindsight.method, hindsight.schedule, hindsight.pairs) == (ONE_DECISION, "exact", 1)
    assert (by_rule.method, by_rule.schedule) == (heuristics[problem], "trimoe")
    assert by_rule.later >= one.later
    assert (by_rule.known > one.known) == (problem == "layout")
    assert (one.method, one.schedule, one.pairs) == (heuristics[problem], "exact", 1)
    assert one.known <= rows[0].record.objective - 1  # scheduled anew, the best there is
    assert one.later > 0


@pytest.mark.usefixtures("undrawn")
def test_what_a_campaign_kept_is_not_solved_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One decision for two later instances: a solve of the campaign's that no table counts."""
    used = [("a", [0, 0, 1], 0), ("b", [1, 1, 2], 3), ("c", [0, 0, 2], 3)]
    instances, file = [placement(*one) for one in used], tmp_path / "s.db"
    table = moeopt.gap(instances, ["frequency"], store=file)
    with Store(file) as store, Store() as empty:
        assert len(store.frame()) == len(table)
        more = {one.key: one for one in store.records()}.keys() - set(store.frame().key)
        assert more
        empty.enroll(make_plan(Campaign([Part(instances, make_settings(["frequency"]))])).entries)
        anew = to_html(Study.of(store.frame(), empty, ""))
        assert {one.key for one in empty.records()} <= more

        def solved(job: Any) -> None:
            raise AssertionError(job.method)

        monkeypatch.setattr(store_module, "attempt", solved)
        assert to_html(Study.of(store.frame(), store, "")) == anew
    with Store(file, read_only=True) as store:
        assert to_html(Study.of(store.frame(), store, "")) == anew


@pytest.mark.parametrize(("problem", "schedulers"), [("cache", 0), ("layout", 1)])
def test_the_page_has_both_references(problem: str, schedulers: int) -> None:
    """A row for one decision in hindsight, shares, and who scheduled where somebody does."""
    options: dict[str, Any] = {"machine": "rtx4090-7960x", "tokens": 6, "slots": 9, "layers": 2}
    if problem == "layout":
        options = {"machine": "trimoe", "batch": 8, "windows": 1}
    common = {"model": "deepseek-v2-lite", "workload": "trimoe-skew"} | options
    with Store() as store:
        rule = get_problem(problem).sample_rule
        rows = moeopt.gap(moeopt.generate_twins(problem, **common), [rule], store=store)
        page = to_html(Study.of(rows.frame, store, ""))
    table = page.split("On loads that came later")[1].split("</table>")[0]
    assert "can beat one decision in hindsight" in " ".join(table.split())
    assert f"is counted from {rule} to it" in " ".join(table.split())
    assert table.count('<th scope="row">one decision in hindsight</th>') == 1
    assert table.count(f'<th scope="row">{rule}</th>') == 1 + schedulers
    assert table.count(">scheduled by<") == schedulers
    assert {text.count("<td") for text in table.split("<tr>")[2:]} == {8 + schedulers}
