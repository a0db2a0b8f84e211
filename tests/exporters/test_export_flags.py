"""Cache flags of elsa, the deferral flag of KTransformers."""

import re
from itertools import product

import pytest

import moeopt
from moeopt.core.errors import InputError
from moeopt.core.objective import entries
from moeopt.exporters.exported import Loss
from moeopt.exporters.targets.elsa import leading_ways, read_elsa
from moeopt.exporters.targets.ktransformers_deferral import read_deferral_flag
from moeopt.problems.cache.check import objective
from moeopt.problems.cache.instance import Instance as Cache
from moeopt.problems.cache.instance import Solution as Ways
from moeopt.problems.deferral.heuristics import uniform
from moeopt.problems.deferral.instance import Instance as Deferral
from tests.problems.cache.cache_random_instances import KINDS
from tests.problems.cache.cache_random_instances import random_instance as random_cache
from tests.problems.deferral.random_schedules import random_instance as random_deferral

ELSA = re.compile(r"--cache-nblocks (\d+) --cache-nways (\d+) --cache-replace-policy LRU\n")


def elsa_rules(flags: str, instance: Cache) -> tuple[int, ...]:
    """Return the ways of each layer as the runtime takes the flags: layers from `nblocks` on none.

    It knows the policies FIFO and LRU; the ways of all layers must fit into the GPU.
    """
    match = ELSA.fullmatch(flags)
    assert match is not None
    layers, ways = map(int, match.groups())
    assert layers <= instance.layers
    assert layers * ways <= instance.slots
    assert ways <= instance.experts
    return tuple(ways if layer < layers else 0 for layer in range(instance.layers))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(4))
def test_elsa_gets_the_best_plan_of_its_form(kind: str, seed: int) -> None:
    """No pair of layers and ways is better, by the checker; the loss is that of the checker."""
    instance = random_cache(seed, kind)
    result = moeopt.solve(instance, "greedy-marginal")
    assert result.solution is not None
    exported = moeopt.export(result.solution, instance, to="elsa")
    ways = elsa_rules(exported.text, instance)
    assert read_elsa(exported.text, instance.layers) == ways
    own = objective(instance, Ways(instance=instance.name, ways=ways))
    if exported.loss is None:
        assert result.solution == Ways(instance=instance.name, ways=ways)
        return
    everything = [
        objective(
            instance, Ways(instance=instance.name, ways=(m,) * n + (0,) * (instance.layers - n))
        )
        for n, m in product(range(instance.layers + 1), range(instance.experts + 1))
        if n * m <= instance.slots
    ]
    assert own == min(everything)
    assert (exported.loss.given, exported.loss.exported) == (result.objective, own)
    assert exported.loss.proven


def test_elsa_takes_a_plan_of_its_form_as_it_is() -> None:
    """Even a poor one; also one without any cache."""
    instance = random_cache(1, "plenty of slots")
    for layers, ways in ((0, 0), (1, 1), (instance.layers, instance.experts)):
        plan = Ways(
            instance=instance.name, ways=(ways,) * layers + (0,) * (instance.layers - layers)
        )
        exported = moeopt.export(plan, instance, to="elsa")
        assert exported.loss is None
        assert elsa_rules(exported.text, instance) == plan.ways


def test_leading_ways_are_told_apart() -> None:
    """Gaps, late starts and unequal numbers are not of elsa's form."""
    assert leading_ways((3, 3, 0)) == (2, 3)
    assert leading_ways((0, 0, 0)) == (0, 0)
    assert leading_ways((2, 2, 2)) == (3, 2)
    for other in ((3, 0, 3), (0, 3, 3), (3, 2, 0), (3, 2, 2)):
        assert leading_ways(other) is None


def test_flags_that_say_nothing_are_refused() -> None:
    """A missing count, more layers than there are, a count that is none."""
    with pytest.raises(InputError, match="must both have a count"):
        read_elsa("--cache-nblocks 3", 4)
    with pytest.raises(InputError, match="is 5, there are 4 layers"):
        read_elsa("--cache-nblocks 5 --cache-nways 1", 4)
    with pytest.raises(InputError, match="must have a count"):
        read_deferral_flag("--kt-max-deferred-experts-per-token x")
    assert read_deferral_flag("--kt-cpuinfer 8") == 0


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
    assert count == read_deferral_flag(f"--kt-cpuinfer 3 {exported.text}")
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
        assert (read_deferral_flag(exported.text), exported.loss) == (count, None)
    single = random_deferral(0, layers=1)
    exported = moeopt.export(uniform(single, 0), single, to="ktransformers-flags")
    assert read_deferral_flag(exported.text) == 0


def test_a_loss_on_nothing_has_no_share() -> None:
    """An objective of 0 that becomes positive; one that stays is a loss of 0 %."""
    assert (
        str(Loss("cache", "f", 0, 3, True))
        == "f: the best such plan makes an objective of 0 positive"
    )
    assert Loss("cache", "f", 0, 3, True).percent is None
    assert str(Loss("cache", "f", 0, 0, False)).endswith("found changes the objective by +0.000 %")
