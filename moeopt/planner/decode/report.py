"""Simulations and timelines as text."""

from collections.abc import Sequence

import numpy as np

from moeopt.planner.decode.result import Simulation
from moeopt.sim.engine.critical_path import critical_path
from moeopt.sim.engine.timeline import Timeline, Usage


def usage_table(usage: Sequence[Usage]) -> str:
    """Return one line per resource: busy and idle time in ms, and the busy share."""
    width = max([len("resource"), *(len(used.resource) for used in usage)])
    lines = [f"{'resource':{width}} {'busy ms':>12} {'idle ms':>12} {'busy':>7}"]
    for used in usage:
        idle = "-" if used.idle_ns is None else f"{used.idle_ns / 1e6:.3f}"
        share = "-" if used.utilisation is None else f"{100 * used.utilisation:.1f} %"
        lines.append(f"{used.resource:{width}} {used.busy_ns / 1e6:12.3f} {idle:>12} {share:>7}")
    return "\n".join(lines)


def summary(found: Simulation) -> str:
    """Return what a simulation found, for people."""
    step = found.step_ns / 1e6
    rate = "-" if found.tokens_per_s is None else f"{found.tokens_per_s:,.1f} tokens/s"
    ran = ", ".join(f"{domain} {count}" for domain, count in found.experts_run.items())
    part = ""
    if found.layers < found.model_layers:
        part = f"; of {found.share} alone, so not the model's rate"
    spread = f"p95 {np.quantile(step, 0.95):.3f}, from {step.min():.3f} to {step.max():.3f}"
    lines = [
        f"{found.model} on {found.machine}: {found.plan}",
        f"  steps       {found.steps}, {found.share}, {found.tokens} tokens in all",
        f"  step        median {np.median(step):.3f} ms, {spread}; the first {step[0]:.3f}",
        f"  rate        {rate}, over all steps{part}",
        f"  experts     {ran}",
    ]
    if found.hits or found.misses:
        share = 100 * found.hits / (found.hits + found.misses)
        lines.append(
            f"  cache       {found.hits} hits ({share:.1f} %), {found.misses} misses,"
            f" {found.fetches} fetches"
        )
    if found.migrations_done or found.migrations_missed or found.migrations_needless:
        lines.append(
            f"  migrations  {found.migrations_done} done, {found.migrations_missed} did not fit,"
            f" {found.migrations_needless} needless"
        )
    return "\n".join([*lines, "", usage_table(found.usage)])


def path_by_kind(timeline: Timeline) -> dict[str, int]:
    """Return how much of the critical path each resource and kind of task has, in ns."""
    share: dict[str, int] = {}
    for task in critical_path(timeline):
        resource = timeline.resources[int(timeline.resource[task])].name
        kind = timeline.bundles[int(timeline.bundle[task])].kind
        length = int(timeline.end_ns[task] - timeline.start_ns[task])
        if length:
            name = f"{resource}: {kind}"
            share[name] = share.get(name, 0) + length
    return dict(sorted(share.items(), key=lambda item: -item[1]))
