"""Heuristics against plain transcriptions and hand-made cases."""

import numpy as np
import pytest

from tests.problems.layout.layout_random_instances import KINDS, random_instance
from tests.rooms.layout import (
    COSTS,
    DOMAINS,
    HEURISTICS,
    IDLE,
    Instance,
    as_solution,
    loads,
    local_search,
    lpt,
    objective,
    refined,
    trimoe_layout,
    trimoe_layout_tuned,
    violations,
)
from tests.rooms.tri_domain import STRIPED, Layout
from tests.rooms.tri_domain import heuristics as online
from tests.rooms.tri_domain import instance as fixed

SEVENTY = "experts 0.7"


def instances(experts: int | None = 9, seeds: range = range(6)) -> list[Instance]:
    """Return random instances of every kind."""
    return [random_instance(seed, kind, experts) for kind in KINDS for seed in seeds]


def rows(experts: int, dimms: int = 2, **given: object) -> Instance:
    """Return one scenario with falling tokens and NDP costs of 10 for all, hosts dear."""
    scenario = dict.fromkeys(COSTS, [1000] * experts) | {
        "weight": 1,
        "tokens": list(range(experts, 0, -1)),
        "ndp_ns": [10] * experts,
    }
    fields = {"hbm_slots": 0, "dimm_slots": None, "dram_striped_ns": 1, "dram_localized_ns": 1}
    scenario |= {name: given.pop(name) for name in list(given) if name in scenario}
    return Instance(
        name="rows", dimms=dimms, experts=experts, scenarios=[scenario], **(fields | given)
    )


def as_tri_domain(instance: Instance, layout: Layout, number: int) -> fixed.Instance:
    """Return one scenario under a layout as an instance of the online problem."""
    s = instance.scenarios[number]
    experts = []
    for row, tokens in enumerate(s.tokens):
        resident, dimm = bool(layout.resident[row]), int(layout.dimm[row])
        striped = dimm == STRIPED
        read = instance.dram_striped_ns if striped else instance.dram_localized_ns
        miss = s.gpu_miss_striped_ns if striped else s.gpu_miss_localized_ns
        if tokens:
            experts.append(
                {
                    "expert": row,
                    "tokens": tokens,
                    "resident": resident,
                    "dimm": None if striped else dimm,
                    "gpu_ns": (s.gpu_hit_ns if resident else miss)[row],
                    "cpu_ns": (s.cpu_striped_ns if striped else s.cpu_localized_ns)[row],
                    "ndp_ns": None if striped else s.ndp_ns[row],
                    "gpu_dram_ns": 0 if resident else read,
                    "cpu_dram_ns": read,
                }
            )
    return fixed.Instance(name="online", dimms=instance.dimms, experts=experts)


def random_layout(instance: Instance, seed: int) -> Layout:
    """Return any layout, slots or not; experts that never have tokens are striped."""
    rng = np.random.default_rng(seed)
    active = instance.path_times.tokens.any(axis=0)
    dimm = np.where(active, rng.integers(-1, instance.dimms, instance.experts), STRIPED)
    return Layout(active & (rng.random(instance.experts) < 0.3), dimm)


def test_the_schedules_are_those_of_the_online_problem() -> None:
    """Given a layout, every scenario is scheduled as tri_domain's `trimoe` does, to the letter."""
    compared = 0
    for seed, instance in enumerate(instances(experts=12)):
        layout = random_layout(instance, seed)
        device, value = refined(instance, layout)
        for number, scenario in enumerate(instance.scenarios):
            if any(scenario.tokens):
                expected = online.trimoe(as_tri_domain(instance, layout, number)).assignment
                found = [DOMAINS[of] for of in device[number] if of != IDLE]
                assert tuple(found) == expected, (instance.name, number)
                compared += 1
        solution = as_solution(instance, layout, device)
        assert value == [of.makespan_ns for of in loads(instance, solution)]
    assert compared > 80


@pytest.mark.parametrize("every", [3, pytest.param(1, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", HEURISTICS)
def test_solutions_are_valid_and_the_same_each_time(name: str, every: int) -> None:
    """Slots of both kinds are respected, whatever the costs."""
    for instance in instances(seeds=range(1 if every > 1 else 6))[::every]:
        solution = HEURISTICS[name](instance)
        assert violations(instance, solution) == [], instance.name
        if instance.name.endswith("-0"):
            assert HEURISTICS[name](instance) == solution


@pytest.mark.slow
def test_better_ones_are_better() -> None:
    """A tuned share is never worse than 70 %; the local search is never worse than its starts."""
    improved = 0
    for instance in instances():
        value = {name: objective(instance, h(instance)) for name, h in HEURISTICS.items()}
        assert value["trimoe-layout-tuned"] <= value["trimoe-layout"]
        others = min(value[name] for name in value if name != "local-search")
        assert value["local-search"] <= others
        improved += value["local-search"] < others
    assert improved >= 30


def test_hot_warm_and_cold_are_told_apart() -> None:
    """Ten experts: seven cold ones in turn by falling load, the hottest one resident, two warm."""
    instance = rows(10, hbm_slots=1)
    solution = trimoe_layout(instance, cold_cut=SEVENTY)
    assert solution.resident == (True, *[False] * 9)
    assert solution.dimm == (None, None, None, 0, 1, 0, 1, 0, 1, 0)
    assert solution.assignment[0][3:] == ("ndp",) * 7


def test_a_resident_expert_is_not_cold() -> None:
    """With room for five residents, five are left for the DIMMs; idle experts have no layout."""
    instance = rows(10, hbm_slots=5, tokens=[1, 2, 3, 4, 5, 6, 7, 0, 0, 0])
    solution = trimoe_layout(instance, cold_cut=SEVENTY)
    assert solution.resident == (False, False, *[True] * 5, *[False] * 3)
    assert solution.dimm == (1, 0, *[None] * 8)


def test_experts_without_tokens_count_among_the_cold() -> None:
    """Three of ten are idle: four of the seven cold ones have a layout."""
    instance = rows(10, tokens=[7, 6, 5, 4, 3, 2, 1, 0, 0, 0])
    solution = trimoe_layout(instance, cold_cut=SEVENTY)
    assert solution.dimm == (None, None, None, 0, 1, 0, 1, None, None, None)


def test_dimm_slots_leave_the_coldest_localized() -> None:
    """Two DIMMs with two slots each: the four coldest of seven."""
    solution = trimoe_layout(rows(10, dimm_slots=2), cold_cut=SEVENTY)
    assert solution.dimm == (*[None] * 6, 0, 1, 0, 1)


def test_cold_is_by_tokens_unless_told_otherwise() -> None:
    """Of 55 tokens 8 % are four: the experts with one and with two."""
    assert trimoe_layout(rows(10)).dimm == (*[None] * 8, 0, 1)


def test_hot_is_by_weighted_tokens() -> None:
    """Expert 1 has fewer tokens, but in the scenario that counts three times."""
    scenario = rows(2).model_dump()["scenarios"][0]
    first, second = {"tokens": [5, 0], "weight": 1}, {"tokens": [0, 2], "weight": 3}
    instance = rows(2, hbm_slots=1)
    both = [scenario | first, scenario | second]
    instance = Instance.model_validate(instance.model_dump() | {"scenarios": both})
    assert trimoe_layout(instance).resident == (False, True)


def test_the_best_share_is_found() -> None:
    """Hosts are slow: everything belongs on the DIMMs, not 70 %."""
    instance = rows(10)
    assert objective(instance, trimoe_layout(instance, cold_cut=SEVENTY)) == 2000
    solution = trimoe_layout_tuned(instance)
    assert None not in solution.dimm
    assert objective(instance, solution) == 50


def test_lpt_packs_the_longest_first() -> None:
    """NDP 7, 6, 5, 4, 3, whatever the tokens: 7, then 6 and 5, then 4 and 3 beside the 7."""
    instance = rows(5, tokens=[1, 5, 2, 4, 3], ndp_ns=[4, 3, 7, 6, 5])
    assert lpt(instance).dimm == (0, 0, 0, 1, 1)


def test_lpt_respects_slots() -> None:
    """One long and three short ones, two slots on each DIMM: 9 + 1 and 1 + 1, not 9 and 3."""
    instance = rows(4, tokens=[4, 3, 2, 1], ndp_ns=[9, 1, 1, 1], dimm_slots=2)
    assert loads(instance, lpt(instance))[0].dimm_ns == (10, 2)


def test_the_local_search_repairs_what_one_move_cannot() -> None:
    """Packing 3, 3, 2, 2, 2 needs an exchange with LPT's 7 and 5."""
    instance = rows(5, ndp_ns=[3, 3, 2, 2, 2])
    assert objective(instance, lpt(instance)) == 7
    assert objective(instance, local_search(instance)) == 6
