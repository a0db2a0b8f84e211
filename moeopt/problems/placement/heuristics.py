"""The runtimes' and the papers' rules for experts on the GPU, with the habit of filling it.

Each rule decides by what its source gives it: counts of the prompts or of an offline profile, where
the instance has them (`moeopt.problems.placement.fields`), and else by the steps themselves. Rules
called ``*-hindsight`` decide by the steps in any case, ``*-stop`` leave the habit of filling off.
A rule returns None where it finds no placement that keeps the instance's rules, e.g. if not every
slot can be filled. Keyword arguments are the assumptions of ``assumptions.py``.
"""

from collections.abc import Callable
from functools import wraps

import numpy as np

from .bounds import capacity_of
from .instance import Instance, Solution
from .layer_steps import Ints
from .ranking import (
    Usage,
    best_prefix,
    descending,
    filled,
    layer_by_layer,
    of_profile,
    of_prompts,
)
from .ranking import importance as importance_scores
from .ranking import offload_time as offload_time_order

Rule = Callable[..., Solution | None]
Filling = Callable[[Instance, Ints], Solution | None]

RANDOM_SEED = 42
"""That of the ktransformers runtime."""

HEADROOM = 20
"""Fiddler leaves a part of so many of the memory free: n = floor(0.95 x memory / expert)."""


def frequency(instance: Instance) -> Solution | None:
    """Global top-K by recorded counts, as the ktransformers runtime does.

    The runtime takes the first K over the flattened (layer, expert) table, not a quota per layer.
    """
    return filled(instance, descending(of_profile(instance).counts))


def per_layer_frequency(instance: Instance) -> Solution | None:
    """Top experts by counts of each layer, slots shared evenly, one more for the first layers."""
    return filled(instance, layer_by_layer(of_profile(instance).counts))


def importance(instance: Instance, per_layer: str = "uniform") -> Solution | None:
    """Top-K by S = (P~ + W~) / 2 of each layer, from the prompts (context-aware CXL-NDP 4.1).

    K is the same in every layer, as many as fit; slots left over stay empty unless the instance
    wants every slot used.
    """
    return _important(instance, of_prompts(instance), filled, per_layer)


def offload_time(instance: Instance) -> Solution | None:
    """Global top-K by the offload time that is saved in the steps."""
    return filled(instance, offload_time_order(instance))


def uniform_x(instance: Instance) -> Solution | None:
    """Put the same x of every layer on the GPU (edge GPU-NDP), the most used in the prompts.

    x as slots allow; slots left over stay empty.
    """
    return _uniform(instance, of_prompts(instance))


def front_loading(instance: Instance) -> Solution | None:
    """First layers completely, as far as slots go (ktransformers' rule of this name)."""
    return filled(instance, np.arange(instance.layers * instance.experts))


def last_first(instance: Instance) -> Solution | None:
    """Last layers completely, none in part: what `--n-cpu-moe N` of llama.cpp leaves on the GPU."""
    layers, experts = instance.layers, instance.experts
    order = np.arange(layers * experts).reshape(layers, experts)[::-1].ravel()
    if instance.restriction == "equal-counts":
        return filled(instance, order)
    return filled(instance.model_copy(update={"restriction": "whole-layers"}), order)


def random(instance: Instance) -> Solution | None:
    """Random experts, with the ktransformers runtime's seed 42: the same for every instance."""
    cells = instance.layers * instance.experts
    return filled(instance, np.random.default_rng(RANDOM_SEED).permutation(cells))


def fiddler(instance: Instance) -> Solution | None:
    """Take the first of a popularity list, in 95 % of the slots (Fiddler's n and headroom).

    Fiddler ships a list that was profiled on other data: the instance's profile. `listed` takes
    any other.
    """
    return listed(instance, descending(of_profile(instance).counts))


def listed(instance: Instance, ranking: Ints) -> Solution | None:
    """Return Fiddler's placement for a popularity list.

    Parameters
    ----------
    ranking
        layer x experts + expert, most popular first, each once.
    """
    most = capacity_of(instance).most
    return filled(instance, ranking, most - -(-most // HEADROOM))


def _in_hindsight(rule: Rule) -> Rule:
    """Return a rule that decides by the steps themselves, whatever is known from before."""

    @wraps(rule)
    def by_steps(instance: Instance, **assumed: str) -> Solution | None:
        return rule(instance.model_copy(update={"known": None}), **assumed)

    name = rule.__name__.replace("_", "-")
    by_steps.__doc__ = f"As `{name}`, from the counts of the steps themselves."
    return by_steps


def frequency_stop(instance: Instance) -> Solution | None:
    """As `frequency`, but only as far as the total time of the steps falls."""
    return best_prefix(instance, descending(of_profile(instance).counts))


def per_layer_frequency_stop(instance: Instance) -> Solution | None:
    """As `per-layer-frequency`, but only as far as the total time of the steps falls."""
    return best_prefix(instance, layer_by_layer(of_profile(instance).counts))


def importance_stop(instance: Instance, per_layer: str = "uniform") -> Solution | None:
    """As `importance`, but only as far as the total time of the steps falls."""
    return _important(instance, of_prompts(instance), best_prefix, per_layer)


def offload_time_stop(instance: Instance) -> Solution | None:
    """As `offload-time`, but only as far as the total time falls."""
    return best_prefix(instance, offload_time_order(instance))


def _important(instance: Instance, usage: Usage, fill: Filling, per_layer: str) -> Solution | None:
    scores = importance_scores(usage)
    if per_layer == "global":
        return fill(instance, descending(scores))
    if per_layer == "uniform" and instance.restriction is None and not instance.fill:
        instance = _alike(instance)
    return fill(instance, layer_by_layer(scores))


def _uniform(instance: Instance, usage: Usage) -> Solution | None:
    if instance.restriction == "whole-layers":
        return None
    return filled(_alike(instance), descending(usage.counts))


def _alike(instance: Instance) -> Instance:
    """Return the instance with the same number of experts of every layer on the GPU."""
    return instance.model_copy(update={"restriction": "equal-counts"})


frequency_hindsight = _in_hindsight(frequency)
per_layer_frequency_hindsight = _in_hindsight(per_layer_frequency)
importance_hindsight = _in_hindsight(importance)
uniform_x_hindsight = _in_hindsight(uniform_x)
fiddler_hindsight = _in_hindsight(fiddler)

WARM_START = offload_time_stop
"""The heuristic whose solution the exact methods start from."""
