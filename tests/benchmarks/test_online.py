"""The study of a runtime's calls: solvers' models, the callers' answers, and the table."""

import pytest

from benchmarks.studies import online
from benchmarks.studies.online import Time, by_cpsat, by_highs, measured, table, timed
from moeopt import solve
from tests.rooms.tri_domain import Expert, Instance, Solution

LIMIT_S = 10.0


def tiny_instance() -> Instance:
    rows = [(None, 9, 5, 4), (0, 7, 8, 3), (0, 7, 8, 6), (1, 7, 8, 5), (None, 6, 6, 3)]
    experts = [
        Expert(
            expert=number,
            tokens=1,
            resident=False,
            dimm=dimm,
            gpu_ns=gpu,
            cpu_ns=cpu,
            ndp_ns=None if dimm is None else read + 1,
            gpu_dram_ns=read,
            cpu_dram_ns=read,
        )
        for number, (dimm, gpu, cpu, read) in enumerate(rows)
    ]
    return Instance(name="tiny", dimms=2, experts=tuple(experts))


@pytest.mark.parametrize("by", [by_cpsat, by_highs])
def test_solvers_models_have_the_optimum(by: object) -> None:
    instance = tiny_instance()
    found = timed(instance, by(instance, LIMIT_S))  # type: ignore[operator]
    assert found.proven
    assert found.makespan == solve(instance, "brute-force").objective


def test_all_callers_agree_on_a_window(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("MODELS", ("deepseek-v2-lite",)), ("BATCHES", (32,)), ("TURNS", 1)):
        monkeypatch.setattr(online, name, value)
    [instance] = online.windows(range(1))
    found = measured(instance, LIMIT_S)
    names = ["moeopt.solve", "moeopt.solve, in a row", "Scheduler.schedule", "CP-SAT", "HiGHS"]
    assert list(found) == names
    assert {time.proven for time in found.values()} == {True}
    assert len({time.makespan for time in found.values()}) == 1


def test_a_contradicted_proof_and_an_invalid_schedule_end_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    instance = tiny_instance()

    def says(*domains: str) -> online.Call:
        return lambda: (lambda: Solution(instance="tiny", assignment=domains), True)

    with pytest.raises(SystemExit, match="TD-C2"):
        timed(instance, says(*["ndp"] * 5))
    monkeypatch.setattr(online, "by_scheduler", lambda _: says(*["cpu"] * 5))
    with pytest.raises(SystemExit, match=r"Scheduler\.schedule proves 35 of "):
        measured(instance, LIMIT_S)


def test_the_table_says_what_a_limit_hides() -> None:
    """Medians and percentiles by rank; a caller that is cut off has lower bounds."""
    found = [
        {"moeopt.solve": Time(0.001 * n, 7, True), "CP-SAT": Time(0.01, 7, n < 2)}
        for n in (1, 2, 3)
    ]
    assert table(found)[2:] == [
        "| moeopt.solve | 3/3 | 2 | 3 | 3 | 1 |",
        "| CP-SAT | 1/3 | ≥ 10 | ≥ 10 | ≥ 10 | ≥ 5 |",
    ]
