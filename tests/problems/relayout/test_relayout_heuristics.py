"""Heuristics against a plain transcription and hand-made cases."""

from typing import Any

import pytest

from tests.problems.relayout.relayout_random_instances import (
    KINDS,
    NEWER_KINDS,
    random_instance,
)
from tests.problems.relayout.test_relayout_oracle import expert, instance_of
from tests.rooms.relayout import (
    HEURISTICS,
    WARM_START,
    Expert,
    Instance,
    Migration,
    Solution,
    after_migrations,
    benefit_greedy,
    benefit_makespan,
    none,
    objective,
    rebalance_only,
    refined,
    refined_after,
    refined_ns,
    schedule_of,
    violations,
)
from tests.rooms.tri_domain import check as tri_domain
from tests.rooms.tri_domain import trimoe


def instances(experts: int | None = None) -> list[Instance]:
    """Return ten random instances of every kind."""
    return [random_instance(seed, kind, experts) for kind in KINDS for seed in range(10)]


def moves_of(solution: Solution) -> list[tuple[Any, ...]]:
    """Return the migrations in the short form of the transcription."""
    return [(m.expert, m.kind, m.dimm) for m in solution.migrations]


def plain_policy(instance: Instance, kinds: str, benefit: str = "") -> list[tuple[Any, ...]]:
    """Transcribe the paper's words with the assumptions of `spec.md`: everything from scratch.

    With `benefit` "makespan" all kinds compete by how much the refined makespan falls.
    """
    active = [e for e in instance.experts if e.tokens]
    place = {e.expert: e.dimm for e in active}
    held = {e.expert: e.resident for e in active}
    chosen: list[tuple[Any, ...]] = []

    def paths(e: Expert, localized: bool, in_memory: bool) -> list[int]:
        miss = e.gpu_miss_localized_ns if localized else e.gpu_miss_striped_ns
        cpu = e.cpu_localized_ns if localized else e.cpu_striped_ns
        return [e.gpu_hit_ns if in_memory else miss, cpu] + ([e.ndp_ns] if localized else [])

    def cold(e: Expert) -> bool:
        found = paths(e, True, held[e.expert])
        return min(found[:2]) > found[2]

    def cold_loads() -> list[int]:
        return [
            sum(e.ndp_ns for e in active if place[e.expert] == d and cold(e))
            for d in range(instance.dimms)
        ]

    def link_left() -> int:
        used = sum(instance.rebalance_ns if m[1] == "rebalance" else 0 for m in chosen)
        used += sum(instance.relayout_ns for m in chosen if m[1] in ("localize", "stripe"))
        return instance.dimm_link_window_ns - used

    def tasks(wanted: str) -> list[tuple[int, int, int, tuple[Any, ...]]]:
        loads, found = cold_loads(), []
        busiest, idlest = loads.index(max(loads)), loads.index(min(loads))
        for e in active:
            if any(m[0] == e.expert for m in chosen):
                continue
            now = paths(e, e.dimm is not None, e.resident)
            if "prefetch" in wanted and not e.resident:
                prefetches = sum(m[1] == "prefetch" for m in chosen) + 1
                fits = prefetches * instance.prefetch_ns <= instance.pcie_window_ns
                if fits and prefetches <= instance.hbm_free_slots:
                    gain = min(now) - e.gpu_hit_ns
                    found.append((gain, -e.expert, 3, (e.expert, "prefetch", None)))
            if "relayout" in wanted and instance.relayout_ns <= link_left():
                gain = min(now) - min(paths(e, e.dimm is None, e.resident))
                kind = ("localize", idlest) if e.dimm is None else ("stripe", None)
                found.append((gain, -e.expert, 2, (e.expert, *kind)))
            fits = "rebalance" in wanted and instance.rebalance_ns <= link_left()
            if fits and e.dimm == busiest and cold(e):
                gain = loads[busiest] - max(loads[busiest] - e.ndp_ns, loads[idlest] + e.ndp_ns)
                found.append((gain, -e.expert, 1, (e.expert, "rebalance", idlest)))
        return [task for task in found if task[0] > 0]

    def span(*more: tuple[Any, ...]) -> int:
        moves = [dict(zip(("expert", "kind", "dimm"), m, strict=True)) for m in (*chosen, *more)]
        return objective(instance, refined(instance, [Migration(**move) for move in moves]))

    for wanted in (kinds,) if benefit == "makespan" else ("prefetch", "relayout rebalance"):
        while found := tasks(" ".join(w for w in wanted.split() if w in kinds)):
            best = max(found, key=lambda task: task[:3])[3]
            if benefit == "makespan":
                best = max(found, key=lambda task: (-span(task[3]), task[2], *task[:2]))[3]
                if span(best) >= span():
                    break
            chosen.append(best)
            if best[1] == "prefetch":
                held[best[0]] = True
                place[best[0]] = None  # it runs from the GPU's memory now
            else:
                place[best[0]] = best[2]
    return chosen


@pytest.mark.parametrize("experts", [None, 12])
def test_the_policy_is_the_paper_word_by_word(experts: int | None) -> None:
    """The implementation makes every decision of the plain transcription."""
    counts: dict[str, int] = {}
    for number, instance in enumerate(instances(experts)):
        every = "prefetch relayout rebalance"
        found = moves_of(benefit_greedy(instance))
        assert found == plain_policy(instance, every), instance.name
        moved = moves_of(rebalance_only(instance))
        assert moved == plain_policy(instance, "rebalance"), instance.name
        if number % 7 == 0:
            fallen = benefit_makespan(instance)
            assert moves_of(fallen) == plain_policy(instance, every, "makespan"), instance.name
            assert benefit_greedy(instance, benefit_reading="makespan") == fallen
            moved += moves_of(fallen)
        for _, kind, _ in found + moved:
            counts[kind] = counts.get(kind, 0) + 1
    assert min(counts[kind] for kind in ("prefetch", "localize", "stripe", "rebalance")) >= 3


def test_the_second_stage_is_trimoe_on_the_new_layout() -> None:
    """The layout after the migrations as a tri_domain instance costs the same schedule the same."""
    for instance in instances(6):
        for heuristic in HEURISTICS.values():
            solution = heuristic(instance)
            layer = after_migrations(instance, solution.migrations)
            schedule = schedule_of(instance, solution)
            assert schedule.assignment == trimoe(layer).assignment
            assert tri_domain.violations(layer, schedule) == []
            assert tri_domain.objective(layer, schedule) == objective(instance, solution)


def test_heuristics_are_valid_on_larger_instances() -> None:
    """No window overrun, no expert twice; in schema 2 as well."""
    newer = [random_instance(seed, kind, 12) for kind in NEWER_KINDS for seed in range(4)]
    for instance in instances(20)[::3] + newer:
        for heuristic in (*HEURISTICS.values(), WARM_START):
            assert violations(instance, heuristic(instance)) == [], instance.name


def test_what_a_task_is_tried_for_is_its_refined_makespan() -> None:
    """Computed without a solution, with every number of migrations, in any order of the rows."""
    newer = [random_instance(seed, kind, 5) for kind in NEWER_KINDS for seed in range(6)]
    for instance in [*instances(9)[::4], *newer]:
        chosen = benefit_greedy(instance).migrations
        turned = instance.model_copy(update={"experts": instance.experts[::-1]})
        for count in range(len(chosen) + 1):
            expected = objective(instance, refined(instance, chosen[:count]))
            assert refined_ns(instance, chosen[:count]) == expected
            assert refined_ns(turned, chosen[:count]) == expected
        for count in range(len(chosen) + 1):
            before, tried = chosen[:count], chosen[count:]
            found = [refined_ns(instance, [*before, *one]) for one in [[], *([t] for t in tried)]]
            assert refined_after(instance, before, tried) == found


def test_moves_between_different_dimms_share_no_link() -> None:
    """Three pairs on three DIMMs, three idle DIMMs: one move each, where one link takes one."""
    experts = [expert(n, dimm=n // 2, ndp_ns=4 + n) for n in range(6)]
    own = {"schema_version": 2, "relayout_share_ns": 0}
    serial, links = (instance_of(experts, dimms=6, **newer) for newer in ({}, own))
    assert moves_of(rebalance_only(serial)) == [(4, "rebalance", 3)]
    assert moves_of(rebalance_only(links)) == [
        (4, "rebalance", 3),
        (2, "rebalance", 4),
        (0, "rebalance", 5),
    ]


def test_the_warm_start_is_the_best_cheap_one() -> None:
    """Never worse than doing nothing, the policy or rebalancing."""
    for instance in instances():
        best = min(objective(instance, h(instance)) for h in (none, benefit_greedy, rebalance_only))
        assert objective(instance, WARM_START(instance)) == best


def test_the_policy_can_lose_to_doing_nothing() -> None:
    """Striping expert 0 makes its own path cheaper; its reads then fall on a busy DIMM.

    Today it takes 6 on the CPU, read from DIMM 1, and DIMM 0 works for 8. Striped it takes 5, and
    is read for 4 on both DIMMs: 12.
    """
    experts = [
        expert(0, dimm=1, cpu_localized_ns=6, cpu_striped_ns=5),
        expert(1, dimm=0, ndp_ns=8),
    ]
    reads = {"dram_striped_ns": 4, "dram_localized_ns": 6, "hbm_free_slots": 0}
    instance = instance_of(experts, **reads)
    assert objective(instance, none(instance)) == 8
    assert moves_of(benefit_greedy(instance)) == [(0, "stripe", None)]
    assert objective(instance, benefit_greedy(instance)) == 12
    assert objective(instance, WARM_START(instance)) == 8
