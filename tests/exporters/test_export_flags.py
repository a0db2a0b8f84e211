"""The deferral flag of KTransformers."""

import re

import pytest

import moeopt
from moeopt.core.objective import entries
from moeopt.exporters.exported import Loss
from moeopt.problems.deferral.heuristics import uniform
from moeopt.problems.deferral.instance import Instance as Deferral
from tests.problems.deferral.random_schedules import random_instance as random_deferral


@pytest.mark.parametrize("kind", ["mixed layers", "nothing must be immediate", "zero times"])
@pytest.mark.parametrize("seed", range(19))
def test_the_deferral_flag_is_the_best_uniform_count(seed: int, kind: str) -> None:
    """A plan with another count somewhere loses to it what the checker says, never less.

    Some of these instances tell the best count from the one that saturates.
    """
    instance = random_deferral(seed, kind, layers=4)
    result = moeopt.solve(instance, "dp")
    assert result.solution is not None
    exported = moeopt.export(result.solution, instance, to="ktransformers-flags")
    match = re.fullmatch(r"--kt-max-deferred-experts-per-token (\d+)\n", exported.text)
    assert match is not None
    count = int(match[1])
    assert 0 <= count <= instance.top_k
    if exported.loss is None:
        assert set(result.solution.deferred[:-1]) == {count}
        return
    tried = [uniform(instance, d) for d in range(instance.max_deferred + 1)]
    verdicts = [moeopt.check(instance, plan).objective for plan in tried]
    best = min(entries(found) for found in verdicts if found is not None)
    assert exported.loss.exported == best == verdicts[count]
    assert entries(exported.loss.exported) >= entries(exported.loss.given)


def test_a_uniform_deferral_plan_is_taken_as_it_is() -> None:
    """Whatever its count; in the last layer nothing is deferred, and a single layer has count 0."""
    instance = random_deferral(0, layers=3)
    instance = Deferral(**instance.model_dump() | {"max_total_penalty": None})
    for count in range(instance.max_deferred + 1):
        exported = moeopt.export(uniform(instance, count), instance, to="ktransformers-flags")
        assert (exported.text.split()[-1], exported.loss) == (str(count), None)
    single = random_deferral(0, layers=1)
    exported = moeopt.export(uniform(single, 0), single, to="ktransformers-flags")
    assert exported.text.split()[-1] == "0"


def test_a_loss_on_nothing_has_no_share() -> None:
    """An objective of 0 that becomes positive; one that stays is a loss of 0 %."""
    assert (
        str(Loss("cache", "f", 0, 3, True))
        == "f: the best such plan makes an objective of 0 positive"
    )
    assert Loss("cache", "f", 0, 3, True).percent is None
    assert str(Loss("cache", "f", 0, 0, False)).endswith("found changes the objective by +0.000 %")
