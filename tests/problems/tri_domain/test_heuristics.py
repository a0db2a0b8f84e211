"""Heuristics against plain transcriptions and hand-made cases."""

from itertools import product

import pytest

from moeopt.problems.tri_domain.check import loads, objective
from moeopt.problems.tri_domain.heuristics import (
    fiddler,
    fiddler_as_coded,
    greedy,
    hybrimoe,
    klotski,
    ktransformers,
    monde,
    trimoe,
)
from moeopt.problems.tri_domain.instance import Instance
from moeopt.problems.tri_domain.solution import DOMAINS, Solution
from tests.problems.tri_domain.random_instances import KINDS, random_instance
from tests.problems.tri_domain.test_oracle import expert


def instances() -> list[Instance]:
    """Return 40 random instances of every kind."""
    return [random_instance(seed, kind) for kind in KINDS for seed in range(40)]


def plain_trimoe(instance: Instance) -> tuple[str, ...]:
    """Transcribe the paper's words with the settlements: loads from scratch at every look."""
    experts = instance.experts

    def cost(row: int, domain: str) -> int | None:
        return getattr(experts[row], f"{domain}_ns")

    def device_loads(assignment: list[str]) -> list[int]:
        load = loads(instance, Solution(instance=instance.name, assignment=tuple(assignment)))
        return [load.gpu_ns, load.cpu_ns, *load.dimm_ns]

    def device(row: int, domain: str) -> int:
        return {"gpu": 0, "cpu": 1}.get(domain, 2 + (experts[row].dimm or 0))

    now = [
        min((d for d in DOMAINS if cost(r, d) is not None), key=lambda d: cost(r, d))
        for r in range(len(experts))
    ]
    while True:
        before = device_loads(now)
        bottleneck = before.index(max(before))
        there = [r for r in range(len(experts)) if device(r, now[r]) == bottleneck]
        if not there:
            return tuple(now)
        row = min(there, key=lambda r: (-cost(r, now[r]), experts[r].expert))
        moves = []
        for domain in DOMAINS:
            if domain != now[row] and cost(row, domain) is not None:
                moved = [*now[:row], domain, *now[row + 1 :]]
                after = device_loads(moved)
                receiver = device(row, domain)
                growth = after[receiver] - before[receiver]
                moves.append((max(after), growth, DOMAINS.index(domain), moved))
        best = min(moves)
        if best[0] >= max(before):
            return tuple(now)
        now = best[3]


def test_trimoe_is_the_paper_word_by_word() -> None:
    """The incremental implementation makes every decision of the plain transcription."""
    for instance in instances():
        assert trimoe(instance).assignment == plain_trimoe(instance), instance.name


def test_trimoe_never_worsens_greedy() -> None:
    """Every refinement step lowers the makespan strictly."""
    for instance in instances():
        assert objective(instance, trimoe(instance)) <= objective(instance, greedy(instance))


def test_greedy_breaks_ties_in_order() -> None:
    """Equal costs: GPU before CPU before NDP."""
    tied = expert(0, dimm=0, gpu_ns=5, cpu_ns=5, ndp_ns=5)
    later = expert(1, dimm=0, gpu_ns=6, cpu_ns=5, ndp_ns=5)
    instance = Instance(name="ties", dimms=1, experts=[tied, later])
    assert greedy(instance).assignment == ("gpu", "cpu")


def test_the_refinement_stops_where_two_dimms_share_the_makespan() -> None:
    """Each DIMM's expert could move to an idle host, but one move relieves one DIMM only."""
    row = {"gpu_ns": 30, "cpu_ns": 30, "ndp_ns": 20, "gpu_dram_ns": 1, "cpu_dram_ns": 1}
    rows = [expert(n, dimm=n // 2, **row) for n in range(4)]
    instance = Instance(name="two bottlenecks", dimms=2, experts=rows)
    assert objective(instance, trimoe(instance)) == 40
    assert objective(instance, trimoe(instance)) == objective(instance, greedy(instance))


@pytest.mark.parametrize(
    ("heuristic", "domains"),
    [
        (klotski, {"gpu"}),
        (ktransformers, {"gpu", "cpu"}),
        (fiddler, {"gpu", "cpu"}),
        (fiddler_as_coded, {"gpu", "cpu"}),
        (hybrimoe, {"gpu", "cpu"}),
        (monde, {"gpu", "ndp"}),
    ],
)
def test_baselines_use_only_the_domains_they_have(heuristic: object, domains: set[str]) -> None:
    """A system without NDP never uses NDP, and so on."""
    for instance in instances():
        assert set(heuristic(instance).assignment) <= domains  # type: ignore[operator]


def test_fiddler_finds_the_least_maximum_of_the_hosts() -> None:
    """Against all splits, as the original enumerates them."""
    for instance in instances():
        e = instance.experts
        best = min(
            max(
                sum(x.gpu_ns for x, gpu in zip(e, split, strict=True) if gpu),
                sum(x.cpu_ns for x, gpu in zip(e, split, strict=True) if not gpu),
            )
            for split in product((True, False), repeat=len(e))
        )
        load = loads(instance, fiddler(instance))
        assert max(load.gpu_ns, load.cpu_ns) == best, instance.name


def test_fiddler_on_a_coarse_grid_stays_close() -> None:
    """Where the table is too fine for memory, GPU times are rounded up: nearly the same split."""
    rows = [expert(n, gpu_ns=10**9 + 7 * n, cpu_ns=10**9 + 11 * n) for n in range(8)]
    instance = Instance(name="coarse", dimms=1, experts=rows)
    assert objective(instance, fiddler(instance)) <= 4.01 * 10**9


def test_fiddler_as_coded_minimises_the_sum() -> None:
    """Each expert takes its own cheaper host."""
    for instance in instances():
        load = loads(instance, fiddler_as_coded(instance))
        assert load.gpu_ns + load.cpu_ns == sum(min(e.gpu_ns, e.cpu_ns) for e in instance.experts)


def test_monde_takes_the_best_number_of_hot_experts() -> None:
    """No other split of the localized experts by tokens has a smaller makespan."""
    for instance in instances():
        hot_first = sorted(
            (r for r, e in enumerate(instance.experts) if e.dimm is not None and not e.resident),
            key=lambda r: (-instance.experts[r].tokens, instance.experts[r].expert),
        )
        spans = []
        for hot in range(len(hot_first) + 1):
            on_ndp = set(hot_first[hot:])
            domains = tuple("ndp" if r in on_ndp else "gpu" for r in range(len(instance.experts)))
            spans.append(objective(instance, Solution(instance=instance.name, assignment=domains)))
        assert objective(instance, monde(instance)) == min(spans), instance.name


def test_ktransformers_loads_hot_experts_until_it_no_longer_helps() -> None:
    """CPU 9 each, GPU 4 each: two on the GPU give max(8, 9), a third one max(12, 0)."""
    rows = [expert(n, tokens=9 - n, gpu_ns=4, cpu_ns=9) for n in range(3)]
    instance = Instance(name="hot", dimms=1, experts=rows)
    assert ktransformers(instance).assignment == ("gpu", "gpu", "cpu")


def test_ties_between_the_hosts() -> None:
    """Equal either way: KTransformers leaves an expert on the CPU, HybriMoE gives it to the GPU."""
    instance = Instance(name="tie", dimms=1, experts=[expert(0, gpu_ns=5, cpu_ns=5)])
    assert ktransformers(instance).assignment == ("cpu",)
    assert hybrimoe(instance).assignment == ("gpu",)


def test_hybrimoe_works_from_both_ends() -> None:
    """GPU takes the head (10, then tie at 20), CPU the tail: by hand."""
    rows = [expert(n, tokens=9 - n, gpu_ns=10, cpu_ns=c) for n, c in enumerate([50, 40, 12, 12])]
    instance = Instance(name="ends", dimms=1, experts=rows)
    # head 0: GPU 10 <= CPU 12 -> GPU; then GPU 20 > CPU 12 -> CPU takes 3;
    # then GPU 20 <= CPU 24 -> GPU takes 1; then GPU 30 > CPU 24 -> CPU takes 2.
    assert hybrimoe(instance).assignment == ("gpu", "gpu", "cpu", "cpu")


def test_hybrimoe_serves_residents_first() -> None:
    """A resident with few tokens goes before a non-resident with many."""
    rows = [
        expert(0, tokens=50, gpu_ns=10, cpu_ns=10),
        expert(1, tokens=1, resident=True, gpu_ns=2, cpu_ns=9),
    ]
    instance = Instance(name="resident first", dimms=1, experts=rows)
    assert hybrimoe(instance).assignment == ("cpu", "gpu")


def test_a_tie_goes_to_the_receiver_that_grows_least() -> None:
    """GPU 10 + 9 is the bottleneck; either move of expert 0 leaves 15, the load of DIMM 1.

    The CPU would grow by 13. DIMM 0 would grow by 14 and lose the GPU's read of 5: by 9.
    """
    rows = [
        expert(0, dimm=0, gpu_ns=10, cpu_ns=13, ndp_ns=14, gpu_dram_ns=5),
        expert(1, gpu_ns=9, cpu_ns=99),
        expert(2, dimm=1, gpu_ns=99, cpu_ns=99, ndp_ns=15),
    ]
    instance = Instance(name="tie", dimms=2, experts=rows)
    assert greedy(instance).assignment == ("gpu", "gpu", "ndp")
    assert trimoe(instance).assignment == ("ndp", "gpu", "ndp")
