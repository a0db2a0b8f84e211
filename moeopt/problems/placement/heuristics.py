"""The runtimes' rules for experts on the GPU, each with the habit of filling it and without.

A rule returns None where it finds no placement that keeps the instance's rules, e.g. if not every
slot can be filled.
"""

from collections.abc import Callable

from .capacity import capacity_of
from .filling import best_prefix, filled
from .instance import Instance
from .layer_steps import Ints
from .rankings import frequency as frequency_order
from .rankings import front_loading as front_loading_order
from .rankings import importance as importance_order
from .rankings import last_first as last_first_order
from .rankings import offload_time as offload_time_order
from .rankings import per_layer_frequency as per_layer_frequency_order
from .rankings import shuffled as shuffled_order
from .solution import Solution

Rule = Callable[[Instance], Solution | None]

HEADROOM = 20
"""Fiddler leaves a part of so many of the memory free: n = floor(0.95 x memory / expert)."""


def frequency(instance: Instance) -> Solution | None:
    """Global top-K by tokens, as in the ktransformers runtime; ties: lower layer, lower expert."""
    return filled(instance, frequency_order(instance))


def per_layer_frequency(instance: Instance) -> Solution | None:
    """Top experts by tokens of each layer, slots shared evenly, one more for the first layers."""
    return filled(instance, per_layer_frequency_order(instance))


def importance(instance: Instance) -> Solution | None:
    """Global top-K by S = a P~ + (1 - a) W~ (context-aware CXL-NDP 4.1), from counts alone."""
    return filled(instance, importance_order(instance))


def offload_time(instance: Instance) -> Solution | None:
    """Global top-K by the offload time that is saved."""
    return filled(instance, offload_time_order(instance))


def uniform_x(instance: Instance) -> Solution | None:
    """Put the same x of every layer on the GPU (edge GPU-NDP), the most used; x as slots allow.

    Slots left over stay empty.
    """
    alike = instance.model_copy(update={"restriction": "equal-counts"})
    if instance.restriction == "whole-layers":
        return None
    return filled(alike, frequency_order(instance))


def front_loading(instance: Instance) -> Solution | None:
    """First layers completely, as far as slots go (ktransformers' rule of this name)."""
    return filled(instance, front_loading_order(instance))


def last_first(instance: Instance) -> Solution | None:
    """Last layers completely, none in part: what `--n-cpu-moe N` of llama.cpp leaves on the GPU."""
    if instance.restriction == "equal-counts":
        return filled(instance, last_first_order(instance))
    whole = instance.model_copy(update={"restriction": "whole-layers"})
    return filled(whole, last_first_order(instance))


def random(instance: Instance) -> Solution | None:
    """Random experts, with the ktransformers runtime's seed 42."""
    return filled(instance, shuffled_order(instance))


def fiddler(instance: Instance) -> Solution | None:
    """Take the first of a popularity list, in 95 % of the slots (Fiddler's n and headroom).

    Fiddler ships a list that was profiled on other data; here the list is that of the instance's
    own steps. `listed` takes another one.
    """
    return listed(instance, frequency_order(instance))


def listed(instance: Instance, ranking: Ints) -> Solution | None:
    """Return Fiddler's placement for a popularity list.

    Parameters
    ----------
    ranking
        layer x experts + expert, most popular first, each once.
    """
    most = capacity_of(instance).most
    return filled(instance, ranking, most - -(-most // HEADROOM))


def frequency_stop(instance: Instance) -> Solution | None:
    """As `frequency`, but only as far as the total time falls."""
    return best_prefix(instance, frequency_order(instance))


def per_layer_frequency_stop(instance: Instance) -> Solution | None:
    """As `per-layer-frequency`, but only as far as the total time falls."""
    return best_prefix(instance, per_layer_frequency_order(instance))


def importance_stop(instance: Instance) -> Solution | None:
    """As `importance`, but only as far as the total time falls."""
    return best_prefix(instance, importance_order(instance))


def offload_time_stop(instance: Instance) -> Solution | None:
    """As `offload-time`, but only as far as the total time falls."""
    return best_prefix(instance, offload_time_order(instance))


HEURISTICS: dict[str, Rule] = {
    "frequency": frequency,
    "per-layer-frequency": per_layer_frequency,
    "importance": importance,
    "offload-time": offload_time,
    "uniform-x": uniform_x,
    "front-loading": front_loading,
    "last-first": last_first,
    "random": random,
    "fiddler": fiddler,
    "frequency-stop": frequency_stop,
    "per-layer-frequency-stop": per_layer_frequency_stop,
    "importance-stop": importance_stop,
    "offload-time-stop": offload_time_stop,
}

WARM_START = offload_time_stop
"""The heuristic whose solution the exact methods start from."""
