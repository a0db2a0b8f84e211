"""How many of a host's threads a runtime is best given."""

import numpy as np

from moeopt.core.errors import InputError
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.costs import costs_of
from moeopt.sim.machines.runtimes.profile import RuntimeProfile
from moeopt.sim.machines.runtimes.setting import Setting, amounts
from moeopt.sim.machines.runtimes.terms import TERMS, token_us
from moeopt.sim.models.model_shape import ModelShape

MOST_TRIED = 4096


def threaded(
    machine: Machine, model: ModelShape, profile: RuntimeProfile, threads: int | None = None
) -> Machine:
    """Return the machine with as many of its cores as compute under a runtime.

    Parameters
    ----------
    threads
        How many; by default those that are fastest, or all cores where the runtime was calibrated
        on the machine, which measured all of them.

    Raises
    ------
    InputError
        If there are not so many cores.
    """
    if not machine.nodes:
        return machine
    cores = [node.only("cpu").cores or 0 for node in machine.nodes]
    if threads is not None and min(cores) and threads > sum(cores):
        said = f"must be at most {sum(cores)}, the cores of machine {machine.name}, not {threads}"
        raise InputError(said, field="threads")
    if threads is not None or not min(cores):
        return machine.with_threads(threads)
    if any(found.runtime == profile.name for found in machine.runtimes):
        return machine
    return machine.with_threads(best_threads(machine, model, profile, sum(cores)))


def best_threads(machine: Machine, model: ModelShape, profile: RuntimeProfile, cores: int) -> int:
    """Return how many of all cores compute a token fastest.

    More threads unpack weights faster; every expert has them all wait for each other. Both, and
    reading, are in proportion to the experts on the host, so that it does not matter how many are.
    """
    calls = (1.0,) * len(model.moe_layers)
    setting = Setting(machine, model, calls, Context(0), profile.numa)
    tried = np.arange(1, min(cores, MOST_TRIED) + 1)
    rows = np.tile(amounts(setting), (len(tried), 1))
    rows[:, TERMS.index("host_decode")] *= cores / tried
    rows[:, TERMS.index("host_expert_us")] *= tried / cores
    costs, _ = costs_of(machine, model, profile)
    return int(tried[np.argmin(token_us(rows, costs))])
