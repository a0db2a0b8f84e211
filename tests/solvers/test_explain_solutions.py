"""What a solution consists of, which single change helps most, and why a price is unknown."""

import dataclasses
from itertools import product
from pathlib import Path

import pytest

import moeopt
from moeopt import InputError
from tests.problems.every_problem import RANDOM, decisions
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.core import below, entries
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.solvers import bind, explain


@pytest.mark.parametrize("problem", PROBLEMS)
def test_devices_add_up_and_changes_are_single(problem: str) -> None:
    """In every problem; changes differ from the solution, and a valid one is found somewhere."""
    check = get_problem(problem)
    tried = 0
    for seed in range(3):
        instance = RANDOM[problem][0](seed)
        for solution in decisions(problem, instance, seed):
            if check.violations(instance, solution):
                continue
            found = bind(instance, solution, 60.0)
            whole = entries(check.objective(instance, solution))[0]
            assert sum(found.devices.values()) == sum(found.parts.values()) == whole
            assert found.complete
            tried += found.tried
            said = [what for what, _ in check.changes(instance, solution)]
            assert len(set(said)) == len(said)
            assert all(other != solution for _, other in check.changes(instance, solution))
            best = [change.objective for change in found.changes]
            assert best == sorted(set(best), key=entries)
            assert sum(change.alike + 1 for change in found.changes) <= found.tried
    assert tried


def test_the_best_change_is_the_best_of_all() -> None:
    """In tri_domain: by trying all pairs of an expert and a domain."""
    check = get_problem("tri_domain")
    helped = 0
    for seed in range(6):
        instance = random_instance(seed, experts=6)
        able = [["gpu", "cpu"] + ["ndp"] * (expert.dimm is not None) for expert in instance.experts]
        for domains in ([of[0] for of in able], [of[-1] for of in able]):
            solution = moeopt.tri_domain.Solution(instance=instance.name, assignment=domains)
            others = [
                check.objective(
                    instance,
                    moeopt.tri_domain.Solution(
                        instance=instance.name,
                        assignment=[*domains[:row], domain, *domains[row + 1 :]],
                    ),
                )
                for row in range(len(domains))
                for domain in able[row]
                if domain != domains[row]
            ]
            found = bind(instance, solution, 60.0)
            assert found.changes[0].objective == min(others)
            assert found.changes[0].alike == others.count(min(others)) - 1
            assert found.tried == len(others)
            helped += below(min(others), found.objective)
    assert helped


def test_no_change_is_better_than_the_optimum() -> None:
    """The optimum's own binding; a solution that is given is looked at in its place."""
    instance = random_instance(4, experts=7)
    found = moeopt.explain(instance)
    assert found.binding is not None
    assert found.binding.objective == found.objective
    assert not any(below(change.objective, found.objective) for change in found.binding.changes)
    worst = max(
        (
            moeopt.tri_domain.Solution(instance=instance.name, assignment=domains)
            for domains in product(["gpu", "cpu"], repeat=7)
        ),
        key=lambda solution: moeopt.check(instance, solution).objective,
    )
    other = moeopt.explain(instance, solution=worst)
    assert other.binding is not None
    assert other.binding.objective == moeopt.check(instance, worst).objective
    assert below(other.binding.changes[0].objective, other.binding.objective)
    with pytest.raises(InputError, match="instance: the solution is for"):
        moeopt.explain(random_instance(5), solution=worst)


def test_rules_that_cannot_be_relaxed_have_no_price() -> None:
    """They are named with the reason; every other rule has a price, which is known here."""
    found = moeopt.explain(random_instance(4, experts=7))
    assert found.reasons == {"TD-C1": "without it nothing has to run"}
    assert "TD-C1" not in found.without
    assert None not in found.without.values()


def test_an_unknown_price_has_its_reason_and_limits() -> None:
    """The time limit, and between which values the price lies: from nothing up."""
    instance = random_instance(4, experts=7)
    late = moeopt.explain(instance, time_limit_s=1e-9)
    reason = "the optimum with every rule is not proven: the time limit came after"
    assert all(late.reasons[rule].startswith(reason) for rule in late.without)
    whole = moeopt.solve(instance, "cp-sat")
    assert isinstance(whole.objective, int)
    cut = dataclasses.replace(
        whole, status="feasible", termination="time_limit", objective=whole.objective - 3,
        bound=whole.objective - 1007, build_s=1.0, solve_s=2.5,
    )  # fmt: skip
    words = "the optimum without it is not proven: the time limit came after 3.5 s"
    assert explain._unknown(whole, cut) == f"{words}; it is from 3 to 1,007"
    worse = dataclasses.replace(cut, objective=whole.objective + 5)
    assert explain._unknown(whole, worse) == f"{words}; it is from 0 to 1,007"
    assert explain._unknown(whole, dataclasses.replace(cut, bound=None)) == words
    assert explain._unknown(whole, whole) is None


def test_changes_stop_at_the_limit() -> None:
    """And that they were not all is said."""
    instance = random_instance(4, experts=7)
    found = bind(instance, moeopt.solve(instance, "cp-sat").solution, 1e-9)
    assert (found.changes, found.tried, found.complete) == ((), 0, False)


def test_the_command_says_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The device that binds, the best change of a poor solution, and errors of one line."""
    instance = moeopt.tri_domain.Instance.from_arrays(
        gpu_ns=[30, 40], cpu_ns=[50, 20], ndp_ns=[-1, 30], dimm=[-1, 0], dimms=1, name="two"
    )
    poor = moeopt.tri_domain.Solution(instance="two", assignment=("cpu", "cpu"))
    moeopt.save(instance, tmp_path / "two.json")
    moeopt.save(poor, tmp_path / "poor.json")
    files = [str(tmp_path / "two.json"), "--solution", str(tmp_path / "poor.json")]
    assert run(["explain", *files]) == 0
    text = capsys.readouterr().out
    assert "CPU is the bottleneck; the critical path is\n    CPU: expert    " in text
    assert "          70 ns (100 %)" in text
    assert "\n  50 ns (-20): expert 0 (1 token) from cpu to gpu; " in text
    assert "TD-C1 cannot be left out, as without it nothing has to run" in text
    moeopt.save(poor.model_copy(update={"assignment": ("cpu",)}), tmp_path / "poor.json")
    line = refused_command(capsys, ["explain", *files])
    assert "poor.json: TD-C1: assignment has 1 entries" in line


@pytest.mark.usefixtures("template_problem")
def test_a_problem_in_which_nothing_runs_has_changes() -> None:
    """No device binds; leaving out an expert that is kept costs its miss."""
    from formulations.TEMPLATE.problem.instance import Instance

    rows = [{"size_bytes": 6, "miss_ns": 5}, {"size_bytes": 4, "miss_ns": 9}]
    instance = Instance(name="two", capacity_bytes=6, min_kept=0, experts=rows)
    found = moeopt.explain(instance).binding
    assert found is not None
    assert (found.devices, found.tied, found.objective) == ({}, (), 5)
    assert [(change.what, change.objective) for change in found.changes] == [
        ("expert 1 not kept", 14)
    ]
