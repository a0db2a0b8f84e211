"""Heuristics against plain transcriptions and hand-made cases."""

from inspect import signature
from itertools import product

import pytest

from moeopt import InputError
from tests.problems.tri_domain.random_instances import KINDS, random_instance
from tests.problems.tri_domain.test_oracle import expert
from tests.rooms.tri_domain import (
    ASSUMPTIONS,
    DOMAINS,
    HEURISTICS,
    Instance,
    Solution,
    fiddler,
    fiddler_as_coded,
    greedy,
    hybrimoe,
    klotski,
    ktransformers,
    loads,
    monde,
    objective,
    trimoe,
    violations,
)


def instances() -> list[Instance]:
    """Return 40 random instances of every kind."""
    return [random_instance(seed, kind) for kind in KINDS for seed in range(40)]


TIE_ORDERS = {"cpu": "cpu gpu ndp", "gpu": "gpu cpu ndp", "ndp": "ndp cpu gpu"}


def plain_trimoe(
    instance: Instance, tie_order: str = "cpu", refinement: str = "one", delta: str = "growth"
) -> tuple[str, ...]:
    """Transcribe the paper's words with the assumptions: loads from scratch at every look."""
    experts = instance.experts

    def cost(row: int, domain: str) -> int | None:
        return getattr(experts[row], f"{domain}_ns")

    def device_loads(assignment: list[str]) -> list[int]:
        load = loads(instance, Solution(instance=instance.name, assignment=tuple(assignment)))
        return [load.gpu_ns, load.cpu_ns, *load.dimm_ns]

    def device(row: int, domain: str) -> int:
        return {"gpu": 0, "cpu": 1}.get(domain, 2 + (experts[row].dimm or 0))

    now = [
        min(
            (d for d in TIE_ORDERS[tie_order].split() if cost(r, d) is not None),
            key=lambda d: cost(r, d),
        )
        for r in range(len(experts))
    ]
    while True:
        before = device_loads(now)
        bottleneck = before.index(max(before))
        there = [r for r in range(len(experts)) if device(r, now[r]) == bottleneck]
        there.sort(key=lambda r: (-cost(r, now[r]), experts[r].expert))
        for row in there if refinement == "all" else there[:1]:
            moves = []
            for domain in DOMAINS:
                if domain != now[row] and cost(row, domain) is not None:
                    moved = [*now[:row], domain, *now[row + 1 :]]
                    after = device_loads(moved)
                    receiver = device(row, domain)
                    growth = after[receiver] - before[receiver]
                    by = growth if delta == "growth" else cost(row, domain)
                    moves.append((max(after), by, DOMAINS.index(domain), moved))
            best = min(moves)
            if best[0] < max(before):
                now = best[3]
                break
        else:
            return tuple(now)


@pytest.mark.parametrize("delta", ["growth", "cost"])
@pytest.mark.parametrize("refinement", ["one", "all"])
@pytest.mark.parametrize("tie_order", TIE_ORDERS)
def test_trimoe_is_the_paper_word_by_word(tie_order: str, refinement: str, delta: str) -> None:
    """The incremental implementation makes every decision of the plain transcription."""
    for number, instance in enumerate(instances()):
        if number % 5 == 0 or (tie_order, refinement, delta) == ("cpu", "one", "growth"):
            found = trimoe(instance, tie_order=tie_order, refinement=refinement, delta=delta)
            expected = plain_trimoe(instance, tie_order, refinement, delta)
            assert found.assignment == expected, instance.name


def test_every_assumption_of_a_heuristic_is_a_keyword_argument() -> None:
    """Defaults agree with the assumption's, and every value is taken; some change a schedule."""
    for assumption in ASSUMPTIONS:
        for name in assumption.methods:
            heuristic = HEURISTICS[name]
            default = signature(heuristic).parameters[assumption.name].default
            assert default == assumption.default, assumption.name
            differs = set()
            for instance in [*instances()[::2], tied_moves()]:
                for value in assumption.values:
                    found = heuristic(instance, **{assumption.name: value})
                    assert violations(instance, found) == []
                    if found != heuristic(instance):
                        differs.add(value)
            assert differs, (name, assumption.name)
            with pytest.raises(InputError, match=f"{assumption.name}: must be one of"):
                heuristic(tied_moves(), **{assumption.name: "neither"})


def test_trimoe_never_worsens_greedy() -> None:
    """Every refinement step lowers the makespan strictly."""
    for instance in instances():
        assert objective(instance, trimoe(instance)) <= objective(instance, greedy(instance))


def test_greedy_breaks_ties_in_the_order_assumed() -> None:
    """Equal costs: CPU before GPU before NDP, or as asked."""
    tied = expert(0, dimm=0, gpu_ns=5, cpu_ns=5, ndp_ns=5)
    later = expert(1, dimm=0, gpu_ns=6, cpu_ns=5, ndp_ns=5)
    instance = Instance(name="ties", dimms=1, experts=[tied, later])
    assert greedy(instance).assignment == ("cpu", "cpu")
    assert greedy(instance, tie_order="gpu").assignment == ("gpu", "cpu")
    assert greedy(instance, tie_order="ndp").assignment == ("ndp", "ndp")


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


def tied_moves() -> Instance:
    """Return GPU 10 + 9 as bottleneck; either move of expert 0 leaves 15, the load of DIMM 1.

    The CPU would grow by 13. DIMM 0 would grow by 14 and lose the GPU's read of 5: by 9.
    """
    rows = [
        expert(0, dimm=0, gpu_ns=10, cpu_ns=13, ndp_ns=14, gpu_dram_ns=5),
        expert(1, gpu_ns=9, cpu_ns=99),
        expert(2, dimm=1, gpu_ns=99, cpu_ns=99, ndp_ns=15),
    ]
    return Instance(name="tie", dimms=2, experts=rows)


def test_a_tie_goes_to_the_receiver_that_grows_least() -> None:
    """By its own total, or by the expert's cost there."""
    assert greedy(tied_moves()).assignment == ("gpu", "gpu", "ndp")
    assert trimoe(tied_moves()).assignment == ("ndp", "gpu", "ndp")
    assert trimoe(tied_moves(), delta="cost").assignment == ("cpu", "gpu", "ndp")


def test_all_experts_of_the_bottleneck_may_move() -> None:
    """GPU 9 + 8; nobody else takes the 9, but the CPU takes the 8 in 16: one pass over all."""
    rows = [expert(0, gpu_ns=9, cpu_ns=99), expert(1, gpu_ns=8, cpu_ns=16)]
    instance = Instance(name="all", dimms=1, experts=rows)
    assert trimoe(instance).assignment == ("gpu", "gpu")
    assert trimoe(instance, refinement="all").assignment == ("gpu", "cpu")


def test_no_hot_expert_is_loaded_on_demand() -> None:
    """KTransformers itself: what is not resident runs on the CPU, whatever the GPU could take."""
    rows = [expert(0, gpu_ns=1, cpu_ns=9), expert(1, gpu_ns=1, cpu_ns=9, resident=True)]
    instance = Instance(name="cold", dimms=1, experts=rows)
    assert ktransformers(instance, hot_loading="none").assignment == ("cpu", "gpu")


def test_monde_may_leave_striped_experts_to_the_cpu() -> None:
    """What NDP cannot run goes over PCIe, or to the CPU; residents stay on the GPU."""
    rows = [
        expert(0, gpu_ns=9, cpu_ns=2),
        expert(1, gpu_ns=9, cpu_ns=2, resident=True),
        expert(2, dimm=0, gpu_ns=20, cpu_ns=2, ndp_ns=8),
    ]
    instance = Instance(name="forced", dimms=1, experts=rows)
    assert monde(instance).assignment == ("gpu", "gpu", "ndp")
    assert monde(instance, striped_experts="cpu").assignment == ("cpu", "gpu", "ndp")


def test_fiddlers_table_holds_all_on_the_gpu() -> None:
    """Also where rounding times up makes that split longer than it is, and any other far longer."""
    experts = [
        {"expert": 0, "tokens": 11, "gpu_ns": 22694, "cpu_ns": 21067089476, "gpu_dram_ns": 1},
        {"expert": 1, "tokens": 32, "gpu_ns": 22693, "cpu_ns": 21067089476, "gpu_dram_ns": 1},
    ]
    shared = {"resident": False, "dimm": None, "ndp_ns": None, "cpu_dram_ns": 5}
    instance = Instance(name="late", dimms=1, experts=[one | shared for one in experts])
    assert fiddler(instance).assignment == ("gpu", "gpu")
