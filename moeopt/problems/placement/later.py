"""Steps that are still to come: futures of an instance, residents decided on them, hold-outs.

A placement lasts for good, so that all steps observed count alike. What experts are used together
in a step decides how its work can be divided, and lasts; but few steps say little of it, and their
optimum fits what came together by chance. So some of a future's steps are those seen, as they are,
and the others use every expert as often as those seen, together with others at random: as if
`PRIOR_STEPS` and another `PRIOR_SHARE` of the steps seen had been recorded of a model whose experts
know nothing of each other. In the drawn steps every expert is active in the share that the counts
say, exactly and not by chance (`moeopt.sim.traces.count_sample`); what is known of prompts or of an
offline profile counts as more of them. An active expert has as many tokens as in one of the steps
where it was.

`decide` takes a local optimum over such futures, reached from those placements that counts suggest;
of these candidates the one is kept that is best on further futures.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from moeopt.core.clock import checkpoint
from moeopt.core.errors import InputError
from moeopt.core.futures import Draw, Futures, drawn_from
from moeopt.core.rounding import rounded
from moeopt.core.search import Search
from moeopt.sim.traces.count_sample import sample_trace
from moeopt.sim.traces.trace import Counts

from .bounds import Capacity, objective_grid
from .instance import Instance, Solution, held_of, solution_of
from .lagrangian.local_search import LocalSearch
from .lagrangian.relaxation import Model, cheapest_layers
from .layer_steps import Flags, Ints
from .ranking import best_prefix, descending, filled, offload_time

PRIOR_STEPS, PRIOR_SHARE = 64, 0.25
"""How many drawn steps stand beside n steps seen: the first, and this part of n.

Chosen on DeepSeek-V2-Lite's three ESFT traces with 20 to 600 steps, where with 200 steps and more
anything up to as many as were seen does; figures of these traces are no test of it.
"""


def draw(instance: Instance, futures: Futures, seed: int) -> Draw:
    """Return what draws steps like those of `instance`; a future is `futures.horizon` of them.

    Parameters
    ----------
    instance
        The steps seen.
    seed
        The same seed draws the same steps.
    """
    seen = _by_layer(instance)
    known = _known(instance)

    def drawn(number: int, stream: int) -> Instance:
        rng = np.random.default_rng([seed, stream])
        steps = number * futures.horizon
        again = _seen_again(len(instance.steps), steps, rng)
        new = steps - len(again)
        layers = [
            _layer(tokens, extra, new, rng) for tokens, extra in zip(seen, known, strict=True)
        ]
        every = [*(instance.steps[row] for row in again), *zip(*layers, strict=True)]
        loads = {"steps": tuple(every[at] for at in rng.permutation(steps).tolist())}
        return drawn_from(instance, f"futures{number}", seed, stream, **loads)

    return drawn


def _seen_again(seen: int, steps: int, rng: np.random.Generator) -> list[int]:
    """Return the steps seen that are among so many: each as often, or once more."""
    share = seen / (seen + PRIOR_STEPS + PRIOR_SHARE * seen)
    return np.resize(rng.permutation(seen), round(share * steps)).tolist()


def _by_layer(instance: Instance) -> Ints:
    """Return the tokens of each expert in each step, shape (layers, steps, experts)."""
    tokens = np.zeros((instance.layers, len(instance.steps), instance.experts), dtype=np.int64)
    for row, step in enumerate(instance.steps):
        for layer, active in enumerate(step):
            for expert, count in active:
                tokens[layer, row, expert] = count
    return tokens


def _known(instance: Instance) -> Ints:
    """Return the tokens known of each expert besides the steps, shape (layers, experts)."""
    total = np.zeros((instance.layers, instance.experts), dtype=np.int64)
    if instance.known is not None:
        for counts in (instance.known.prefill_counts, instance.known.profile_counts):
            if counts is not None:
                total += np.array(counts, dtype=np.int64)
    return total


DRAWN_PER_UNIT = 4e5
"""Uses of experts that are drawn in a second of one core."""


def _layer(
    tokens: Ints, known: Ints, steps: int, rng: np.random.Generator
) -> list[tuple[tuple[int, int], ...]]:
    """Return one layer of the steps drawn: experts and tokens.

    Parameters
    ----------
    tokens
        In the steps seen, shape (steps, experts).
    known
        Further tokens of each expert, shape (experts,): at as many a step as in those seen.
    """
    checkpoint(steps * int((tokens > 0).sum()) / max(1, len(tokens)) / DRAWN_PER_UNIT)
    active = tokens > 0
    uses = active.sum(axis=0)
    each = tokens.sum() / max(1, uses.sum())
    shares = uses + known / max(each, 1.0)
    together = max(1, round(uses.sum() / len(tokens)))
    if not steps:
        return []
    if not shares.any():
        return [()] * steps
    together = min(together, int((shares > 0).sum()))
    wanted = _capped(shares / shares.sum() * together)
    counts = np.rint(rounded(wanted) * 2**30 / together).astype(np.int64)
    ids = sample_trace(Counts("", counts[None, None]), together, steps, int(rng.integers(2**31)))
    chosen = ids.topk_ids[:, 0]
    drawn = np.ones(chosen.shape, dtype=np.int64)
    for expert in np.unique(chosen).tolist():
        at = chosen == expert
        if uses[expert]:
            sizes = rng.permutation(tokens[active[:, expert], expert])
            drawn[at] = rng.permutation(np.resize(sizes, int(at.sum())))
        else:
            drawn[at] = max(1, round(each))
    pairs = np.stack([chosen, drawn], axis=2).tolist()
    return [tuple((expert, count) for expert, count in step) for step in pairs]


def _capped(shares: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return shares of at most 1 each, with the same sum, the others in proportion."""
    for _ in range(len(shares)):
        full = shares >= 1
        if not (over := float((shares[full] - 1).sum())) > 1e-12:
            break
        rest = shares[~full].sum()
        shares = np.where(full, 1.0, shares * (1 + over / rest if rest else 1.0))
    return np.minimum(shares, 1.0)


TRAIN, TEST = 0, 1
"""Streams of futures: to improve placements on, and to choose among them."""

AT_ONCE = 2**62
"""Stands for the value of a decision that is reported before there are futures to value it on."""

PERTURBATIONS = 6
"""Descents from the incumbent, some experts exchanged, after those from ranks."""


def decide(observed: Instance, draw: Draw, search: Search, futures: Futures) -> None:
    """Report placements and what they cost on the futures that choose among them."""
    counted = filled(observed, descending(observed.tokens))
    if counted is not None:
        search.offer(counted, AT_ONCE)
    test: Instance = draw(futures.samples, TEST)

    def offer(held: Flags) -> int:
        ns = futures.value(future_ns(test, held, futures.samples))
        search.offer(solution_of(test, held), ns)
        return ns

    for order in (descending(observed.tokens), descending(test.tokens)):
        if (start := filled(observed, order)) is not None:
            offer(held_of(start, observed.layers, observed.experts))
    train: Instance = draw(futures.samples, TRAIN)
    model = Model.of(train, objective_grid(train))
    if observed.restriction == "whole-layers":
        if (best := cheapest_layers(model)) is not None:
            offer(best)
        return
    incumbent: LocalSearch | None = None
    for order in (descending(train.tokens), offload_time(train)):
        solution = best_prefix(train, order) or filled(train, order)
        if solution is None or search.stopped:
            continue
        held = held_of(solution, train.layers, train.experts)
        incumbent = _better(incumbent, _descended(model, held, search))
        offer(incumbent.held)
    rng = np.random.default_rng(search.seed)
    for _ in range(PERTURBATIONS if incumbent is not None else 0):
        if search.stopped or incumbent is None:
            return
        start_again = perturbed(incumbent.held, model.capacity, rng)
        incumbent = _better(incumbent, _descended(model, start_again, search))
        offer(incumbent.held)


EXCHANGES = (2, 10)
"""Fewest and most exchanges of a perturbation."""

TRIES = 50


def perturbed(held: Flags, capacity: Capacity, rng: np.random.Generator) -> Flags:
    """Return a placement that keeps the rules, some experts away from the given one.

    Experts that change sides are drawn from few layers, so that few moves mend what is worse.
    """
    for _ in range(TRIES):
        found = held.copy()
        layers = rng.choice(len(held), size=min(2, len(held)), replace=False)
        for _ in range(int(rng.integers(*EXCHANGES))):
            out, into = (int(layer) for layer in rng.choice(layers, size=2))
            if capacity.restriction == "equal-counts":
                into = out
            on, off = np.flatnonzero(found[out]), np.flatnonzero(~found[into])
            if len(on) and len(off):
                found[out, rng.choice(on)] = False
                found[into, rng.choice(off)] = True
        if capacity.allows(found):
            return found
    return held


def future_ns(instance: Instance, held: Flags, futures: int) -> Ints:
    """Return what each future takes, in ns, shape (futures,): as many steps of `instance` each."""
    fixed_ns = instance.layer_offload_fixed_ns
    of_step = np.zeros(len(instance.steps), dtype=np.int64)
    for layer, row in zip(instance.layer_steps, held, strict=True):
        gpu, off, count = layer.sums(layer.computed(row, fixed_ns))
        there = layer.row_of_step >= 0
        of_row = np.maximum(gpu, off + fixed_ns * (count > 0))
        of_step[there] += of_row[layer.row_of_step[there]]
    return np.array([part.sum() for part in np.array_split(of_step, futures)], dtype=np.int64)


def _descended(model: Model, held: Flags, search: Search) -> LocalSearch:
    local = LocalSearch(model, held)
    local.descend(lambda: search.stopped)
    return local


def _better(incumbent: LocalSearch | None, found: LocalSearch) -> LocalSearch:
    return found if incumbent is None or found.total_ns < incumbent.total_ns else incumbent


TABLES = ("gpu_expert_ns", "offload_expert_ns")
WIDTH_TABLES = ("width_gpu_ns", "width_offload_ns")


def unchanged(instance: Instance, decision: Solution) -> Solution:
    """Return a placement decided on other steps, dispatched best on those of an instance.

    One that does not fit the instance comes back as it is, for the checker to say why.
    """
    moved = decision.model_copy(update={"instance": instance.name, "computed_on_gpu": None})
    fits = len(moved.gpu) == instance.layers
    if not fits or any(expert >= instance.experts for row in moved.gpu for expert in row):
        return moved
    return solution_of(instance, held_of(moved, instance.layers, instance.experts))


def joined(instances: Sequence[Instance]) -> Instance:
    """Return the instance of all steps, without what rules knew before them.

    Raises
    ------
    InputError
        If the times of experts differ.
    """
    change: dict[str, object] = {
        "provenance": None,
        "known": None,
        "steps": tuple(step for one in instances for step in one.steps),
    }
    for name in TABLES:
        change[name] = _longest(name, [getattr(one, name) for one in instances])
    for name in WIDTH_TABLES:
        tables = [getattr(one, name) for one in instances]
        if tables[0] is not None:
            rows = zip(*tables, strict=True)
            change[name] = tuple(_longest(name, row) for row in rows)
    return instances[0].model_copy(update=change)


def _longest(name: str, tables: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """Return the table that the others, which end at fewer tokens, are the beginning of."""
    longest = max(tables, key=len)
    if any(table != longest[: len(table)] for table in tables):
        raise InputError(f"{name}: differs: experts do not take the same time")
    return longest
