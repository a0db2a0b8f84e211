"""The tie that TriMoE 4.2 leaves open: a localized expert costs GPU and CPU the same read."""

from collections.abc import Callable

import numpy as np

from moeopt.problems.tri_domain.heuristics import CPU, GPU, NDP, Choice, refine
from moeopt.problems.tri_domain.instance import STRIPED, Instance
from moeopt.problems.tri_domain.solution import DOMAINS, Solution
from moeopt.reproduce.trimoe import layouts
from moeopt.reproduce.trimoe.setting import Setting
from moeopt.reproduce.trimoe.systems import every_step, fixed, rows
from moeopt.sim.plan.schema import Plan

RULES: dict[str, tuple[int, ...]] = {
    "cpu, gpu, ndp": (CPU, GPU, NDP),
    "gpu, cpu, ndp": (GPU, CPU, NDP),
}
"""Which of several cheapest paths is taken."""

ALWAYS_NDP = "localized always on ndp"
"""Another reading: localized experts are the NDP units' own."""


def system(rule: str, *, refined: bool) -> Callable[[Setting], Plan]:
    """Return TriMoE on its offline layout, greedy or refined, with a rule for ties."""

    def schedule(layer: Instance) -> Solution:
        start = _start(layer, rule)
        choice = refine(layer, start) if refined else start
        return Solution(instance=layer.name, assignment=tuple(DOMAINS[d] for d in choice.tolist()))

    def plan(setting: Setting) -> Plan:
        place = every_step(setting, layouts.offline(setting))
        came = zip(rows(setting), place, strict=True)
        domains = [layouts.domains(setting, load, at, schedule) for load, at in came]
        return fixed(f"trimoe, {rule}", setting, place, domains)

    return plan


def _start(layer: Instance, rule: str) -> Choice:
    c = layer.columns
    striped = c.dimm == STRIPED
    costs = np.stack([c.gpu_ns, c.cpu_ns, np.where(striped, np.iinfo(np.int64).max, c.ndp_ns)])
    if rule == ALWAYS_NDP:
        return np.where(striped, costs.argmin(axis=0), NDP)
    order = np.array(RULES[rule])
    return np.asarray(order[costs[order].argmin(axis=0)])
