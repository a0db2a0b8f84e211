"""A cache instance's accesses as a trace for cache simulators: libCacheSim.

A request is one expert of one layer: its object is ``layer x experts + expert``, its size 1 and its
time the token's number. Requests come by token, then by layer, then in the listed order, and a
simulator knows nothing of tokens whose experts are looked up together.

A simulator has one cache. Over the requests of all layers, one token's come to so many objects that
a shared cache of few units never hits: what says something is one run for each layer, with that
layer's ways. So beside the trace of all layers there is one for each, and a script that runs them.
"""

import shlex
from collections.abc import Callable
from functools import partial
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.target import HERE, Target, script
from moeopt.problems.cache.instance import Instance
from moeopt.problems.cache.instance import Solution as Ways

NEVER = -1
"""The next access of an object that does not come back."""

REQUEST = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next_access_vtime", "<i8")])
"""One request of oracleGeneral: 24 bytes, unpadded."""

Numbers = NDArray[np.int64]


def export_csv(job: Job) -> Exported:
    """Return the trace as csv with the header ``time,id,size``."""
    columns = '"time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=true,obj-id-is-num=1"'

    def payload(times: Numbers, objects: Numbers) -> bytes:
        pairs = zip(times.tolist(), objects.tolist(), strict=True)
        lines = "".join(f"{time},{number},1\n" for time, number in pairs)
        return f"time,id,size\n{lines}".encode()

    return _by_layer(job, payload, ".csv", f"csv lru {{ways}} -t {columns}")


def export_oracle_general(job: Job) -> Exported:
    """Return the trace as oracleGeneral, with each request's next one to the same object.

    Requests are counted from 1, as libCacheSim's own converter counts them.
    """
    return _by_layer(job, _packed, ".oracleGeneral", "oracleGeneral lru,belady {ways}")


def _packed(times: Numbers, objects: Numbers) -> bytes:
    packed = np.zeros(len(times), dtype=REQUEST)
    packed["time"], packed["id"], packed["size"] = times, objects, 1
    packed["next_access_vtime"] = next_accesses(objects)
    return packed.tobytes()


def requests(instance: Instance) -> tuple[Numbers, Numbers]:
    """Return the times and the objects of all requests."""
    tokens = instance.accesses
    used = [[len(experts) for experts in token] for token in tokens]
    times = np.repeat(np.arange(len(tokens)), [sum(row) for row in used])
    layers = np.repeat(np.tile(np.arange(instance.layers), len(tokens)), list(chain(*used)))
    experts = np.fromiter(chain.from_iterable(chain(*tokens)), dtype=np.int64)
    return times, layers * instance.experts + experts


def next_accesses(objects: Numbers) -> Numbers:
    """Return the number, from 1, of the next request to the same object, or `NEVER`."""
    order = np.argsort(objects, kind="stable")
    following = np.full(len(objects), NEVER, dtype=np.int64)
    again = objects[order[1:]] == objects[order[:-1]]
    following[order[:-1][again]] = order[1:][again] + 1
    return following


def ways_of(job: Job) -> list[int]:
    """Return the ways of each layer: the plan's, or the slots divided evenly if there is none."""
    instance = job.given(Instance)
    if job.solution is None:
        return [min(instance.slots // instance.layers, instance.experts)] * instance.layers
    return [count or 0 for count in job.plan(Ways).ways]


def _by_layer(
    job: Job, payload: Callable[[Numbers, Numbers], bytes], ending: str, arguments: str
) -> Exported:
    """Return the trace of all layers, and beside it one of each layer with a script to run them."""
    instance, ways = job.given(Instance), ways_of(job)
    times, objects = requests(instance)
    layer_of = objects // instance.experts
    beside = {
        f".layer{layer}{ending}": payload(times[layer_of == layer], objects[layer_of == layer])
        for layer in range(instance.layers)
    }
    cached = [layer for layer, own in enumerate(ways) if own]

    def lines(path: Path) -> list[str]:
        return [
            f"{shlex.quote(f'{path}.layer{layer}{ending}')} "
            f"{arguments.format(ways=ways[layer])} --ignore-obj-size 1"
            for layer in cached
        ]

    def flags(path: Path) -> str:
        return "\n".join(lines(path))

    def start(file: str) -> str:
        commands = [f'"${{CACHESIM:-cachesim}}" {line}' for line in lines(Path(HERE) / file)]
        return script("libcachesim", "one simulation for each layer", "", "\n".join(commands))

    return Exported(
        payload(times, objects),
        flags if cached else None,
        _notes(job),
        beside=beside,
        script=start if cached else None,
    )


def _notes(job: Job) -> dict[str, object]:
    instance = job.given(Instance)
    slots = min(instance.slots, instance.layers * instance.experts)
    known: dict[str, object] = {"layers": instance.layers, "experts": instance.experts}
    return known | {"slots": slots, "ways": ways_of(job)}


trace_target = partial(
    Target,
    problems=("cache",),
    holds="the accesses of all layers, and of each with its ways",
    loses="that a token's experts at a layer are looked up together",
    plan=False,
)

TARGETS = (
    trace_target(
        "libcachesim",
        "libCacheSim: the trace as csv",
        suffix=".csv",
        export=export_csv,
    ),
    trace_target(
        "libcachesim-oracle",
        "libCacheSim: the trace as oracleGeneral, binary",
        suffix=".oracleGeneral",
        export=export_oracle_general,
    ),
)
