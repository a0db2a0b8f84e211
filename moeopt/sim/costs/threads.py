"""How many of a host's threads a runtime is best given."""

from dataclasses import replace

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.costs.terms import TERMS, token_us
from moeopt.sim.costs.token import amounts, doublings
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.profile import costs_of, get_runtime
from moeopt.sim.machines.runtimes.setting import Setting

MOST_TRIED = 4096


def threaded(setting: Setting) -> Setting:
    """Return the setting with a number of threads where none is asked for.

    Those that are fastest, or all cores where the runtime was calibrated on the machine, which
    measured all of them.

    Raises
    ------
    InputError
        If more are asked for than there are cores, or there is no such runtime.
    """
    machine, threads, profile = setting.machine, setting.threads, get_runtime(setting.runtime)
    cores = [node.only("cpu").cores or 0 for node in machine.nodes]
    if not cores or not min(cores):
        return setting
    if threads is not None:
        if threads <= sum(cores):
            return setting
        said = f"must be at most {sum(cores)}, the cores of machine {machine.name}, not {threads}"
        raise InputError(said, field="threads")
    if any(found.runtime == profile.name for found in machine.runtimes):
        return setting
    return replace(setting, threads=best_threads(setting, sum(cores)))


def best_threads(setting: Setting, cores: int) -> int:
    """Return how many of all cores compute a token fastest, placed as the runtime does by itself.

    More threads unpack weights faster; every expert has them all wait for each other. Both, and
    reading, are in proportion to the experts on the host, so that it does not matter how many are.
    """
    calls = (1.0,) * len(setting.model.moe_layers)
    numa = get_runtime(setting.runtime).numa
    empty = replace(setting, context=Context(0), threads=None, numa=numa)
    tried = np.arange(1, min(cores, MOST_TRIED) + 1)
    rows = np.tile(amounts(empty, calls), (len(tried), 1))
    rows[:, TERMS.index("host_decode")] *= cores / tried
    rows[:, TERMS.index("barrier_threads")] = doublings(tried)
    return int(tried[np.argmin(token_us(rows, costs_of(setting)[0]))])
