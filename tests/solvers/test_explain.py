"""Which rules conflict, and what each costs."""

import pytest

import moeopt
from tests.problems.split import split_random_instances
from tests.problems.tri_domain.random_instances import random_instance


@pytest.mark.usefixtures("template_problem")
@pytest.mark.parametrize("method", ["cp-sat", "milp"])
def test_a_conflict_is_minimal(method: str) -> None:
    """Both rules of the miniature problem are needed for its infeasibility, and named."""
    from formulations.TEMPLATE.problem.instance import Instance

    rows = [{"size_bytes": 6, "miss_ns": 5}, {"size_bytes": 7, "miss_ns": 9}]
    tight = Instance(name="tight", capacity_bytes=10, min_kept=2, experts=rows)
    found = moeopt.explain(tight, method)
    assert (found.status, found.conflict, found.minimal) == ("infeasible", ("TM-C1", "TM-C2"), True)


@pytest.mark.usefixtures("template_problem")
def test_a_conflict_leaves_out_what_is_not_to_blame() -> None:
    """More experts demanded than there are: the capacity has nothing to do with it."""
    from formulations.TEMPLATE.problem.instance import Instance

    rows = [{"size_bytes": 1, "miss_ns": 5}]
    impossible = Instance(name="impossible", capacity_bytes=10, min_kept=2, experts=rows)
    assert moeopt.explain(impossible).conflict == ("TM-C2",)


def test_the_price_of_each_rule() -> None:
    """Without a rule the optimum is what solving without it gives, and never higher."""
    instance = random_instance(4, experts=7)
    found = moeopt.explain(instance)
    assert (found.status, found.conflict) == ("optimal", ())
    assert found.objective == moeopt.solve(instance).objective
    for rule, optimum in found.without.items():
        assert optimum == moeopt.solve(instance, "milp", without={rule}).objective
        assert optimum is not None
        assert found.objective is not None
        assert optimum <= found.objective


@pytest.mark.usefixtures("template_problem")
def test_an_undecided_rule_is_admitted() -> None:
    """Where the limit cuts in nothing is claimed."""
    found = moeopt.explain(random_instance(4, experts=7), time_limit_s=1e-9)
    assert found.status == "unknown"
    assert set(found.without.values()) == {None}


@pytest.mark.parametrize("rule", ["SP-C3", "SP-C4"])
def test_an_instance_may_do_without_a_rule(rule: str) -> None:
    """Its optimum is that of the model without the rule, also where there is none."""
    for seed in range(12):
        instance = split_random_instances.random_instance(seed)
        loose = instance.without_rule(rule)
        assert loose is not None
        known = moeopt.solve(instance, "cp-sat", without={rule})
        found = moeopt.solve(loose)
        assert (found.status, found.objective) == (known.status, known.objective)


def test_a_split_among_equal_gpus_is_explained_within_little_work() -> None:
    """Without its buffers or its order CP-SAT alone proves nothing within a minute."""
    folder = "instances/split/two-gpus"
    instance = moeopt.load(f"{folder}/2xrtx3090+epyc-7002-gpt-oss-120b-Q4_K_M.json")
    found = moeopt.explain(instance, work_limit=3)
    assert None not in found.without.values()
