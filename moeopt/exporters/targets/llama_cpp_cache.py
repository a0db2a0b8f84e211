"""llama.cpp with a cache of experts on the GPU, in the two forms that there are.

**Resident experts by a profile**: a fork (thecodacus/llama.cpp, branch ``perf``) has
``--moe-cache-profile FILE --moe-cache-slots N``. FILE is what its ``llama-moe-trace`` records,
``pos,layer,id,id,...``; of each layer whose experts are on the CPU it copies the N experts that
occur most often in decoded tokens (position 0 and later) to the GPU, and keeps them there. A file
in which exactly the plan's experts occur leaves it no choice. N is the same for all layers.

**A cache**: llama.cpp itself, since pull request 29887, has ``--moe-cache-mib N``: the experts of
all layers of one layout share a cache of N MiB, least recently used; each miss is copied first.
"""

import shlex
from collections import OrderedDict
from pathlib import Path
from typing import Any

from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.models import known_shape
from moeopt.exporters.placed import placed
from moeopt.exporters.restricted import best_restricted
from moeopt.exporters.target import Target
from moeopt.problems.cache.instance import Instance

EQUAL_COUNTS = "equally many experts of each layer on the GPU"

IDS_IN_A_LINE = 256
"""Experts in a line of a profile: its reader takes lines of up to 4095 characters."""

ON_CPU = "-ngl 999 --cpu-moe"

MIB = 2**20

USING = frozenset({
    "DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "Qwen3_5MoeForCausalLM",
    "Qwen3_5MoeForConditionalGeneration",
})  # fmt: skip
"""Classes of models whose graph in the fork uses the copies (deepseek2 and qwen35moe; laguna is a
third)."""


def export_profile(job: Job) -> Exported:
    """Return the profile of a placement, brought to equal counts if it is not of that form."""
    plan, loss = placed(job), None
    if len(set(map(len, plan.gpu))) > 1:
        solution, loss = best_restricted(job, {"restriction": "equal-counts"}, EQUAL_COUNTS)
        plan = placed(job, solution)
    slots = len(plan.gpu[0])
    lines = [
        ",".join(map(str, (0, layer, *own[first : first + IDS_IN_A_LINE])))
        for layer, own in zip(plan.hidden, plan.gpu, strict=True)
        for first in range(0, slots, IDS_IN_A_LINE)
    ]

    def flags(path: Path) -> str:
        if slots in (0, plan.experts):  # none are cached, or none are on the CPU
            return ON_CPU if slots == 0 else "-ngl 999"
        profile = f"--moe-cache-profile {shlex.quote(str(path))}"
        return f"{ON_CPU} {profile} --moe-cache-slots {slots}"

    text = "".join(f"{line}\n" for line in lines)
    return Exported(text.encode(), flags, plan.notes() | {"slots": slots}, loss)


def runs_without(job: Job) -> tuple[str, ...]:
    """Return that the fork runs a model as if there were no cache, by its class."""
    if job.model_class in USING:
        return ()
    model = job.model_class or "a model of unknown class"
    where = "the fork uses the cache for its deepseek2, qwen35moe and laguna models only"
    return (f"{where}: it may run {model} without it; look for 'expert cache:' in its log",)


def export_cache(job: Job) -> Exported:
    """Return the flags of a cache plan: one size for all layers together."""
    instance: Any = job.instance
    plan: Any = job.solution
    total = sum(plan.ways)
    size_mib = total * known_shape(job).expert_bytes // MIB
    line = f"{ON_CPU} --moe-cache-mib {size_mib}" if size_mib else ON_CPU
    own = sum(int(instance.curves.hits[layer, ways]) for layer, ways in enumerate(plan.ways))
    found, lookups = shared_lru(instance, total)
    notes = {"experts_cached": total, "cache_mib": size_mib, "lookups": lookups}
    notes |= {"hits": {"plan": own, "one cache for all layers": found}}
    warnings: tuple[str, ...] = ()
    if found != own:
        change = f"{found:,} of {lookups:,} lookups hit, {own:,} with the plan's ways"
        warnings = (f"llama.cpp shares the cache between all layers: {change}",)
    return Exported(f"{line}\n".encode(), lambda _: line, notes, warnings=warnings)


def shared_lru(instance: Instance, capacity: int) -> tuple[int, int]:
    """Return hits and lookups of one least recently used cache for the experts of all layers.

    A token's experts at a layer are looked up together, as in the problem's own caches.
    """
    content: OrderedDict[tuple[int, int], None] = OrderedDict()
    hits = lookups = 0
    for token in instance.accesses:
        for layer, used in enumerate(token):
            lookups += len(used)
            hits += sum((layer, expert) in content for expert in used)
            for expert in used:
                content[layer, expert] = None
                content.move_to_end((layer, expert))
            while len(content) > capacity:
                content.popitem(last=False)
    return hits, lookups


TARGETS = (
    Target(
        "llama.cpp-profile",
        "llama.cpp, the fork with --moe-cache-profile: resident experts",
        ("placement",),
        ".csv",
        export_profile,
        holds="equally many experts of each layer, which ones being free",
        loses="counts that differ between layers",
        honoured_by=USING,
        warn=runs_without,
        start="${LLAMA_SERVER:-llama-server} -m",
    ),
    Target(
        "llama.cpp-cache",
        "llama.cpp since pull request 29887: --moe-cache-mib",
        ("cache",),
        ".txt",
        export_cache,
        holds="the size of all layers' caches together",
        loses="ways of single layers: all share one cache",
        names_experts=False,
        start="${LLAMA_SERVER:-llama-server} -m",
    ),
)
