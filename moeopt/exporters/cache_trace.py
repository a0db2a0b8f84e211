"""A cache instance's accesses as a trace for cache simulators: libCacheSim and webcachesim.

A request is one expert of one layer: its object is ``layer x experts + expert``, its size 1 and its
time the token's number. Requests come by token, then by layer, then in the listed order: a
simulator with as many units as there are slots shares them between all layers, and knows nothing of
tokens whose experts are looked up together.
"""

import io
import shlex
from collections.abc import Callable
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.problems.cache.instance import Instance

NEVER = -1
"""The next access of an object that does not come back."""

REQUEST = np.dtype([("time", "<u4"), ("id", "<u8"), ("size", "<u4"), ("next_access_vtime", "<i8")])
"""One request of oracleGeneral: 24 bytes, unpadded."""

Numbers = NDArray[np.int64]
Accesses = tuple[tuple[tuple[int, ...], ...], ...]


def export_csv(job: Job) -> Exported:
    """Return the trace as csv with the header ``time,id,size``."""
    columns = '"time-col=1,obj-id-col=2,obj-size-col=3,delimiter=,,has-header=true,obj-id-is-num=1"'
    lines = _lines(job, ",")
    return _exported(job, b"time,id,size\n" + lines, f"csv lru {{slots}} -t {columns}")


def export_webcachesim(job: Job) -> Exported:
    """Return the trace as lines ``time id size``."""
    return _exported(job, _lines(job, " "), None)


def export_oracle_general(job: Job) -> Exported:
    """Return the trace as oracleGeneral, with each request's next one to the same object.

    Requests are counted from 1, as libCacheSim's own converter counts them.
    """
    times, objects = requests(_instance(job))
    packed = np.zeros(len(times), dtype=REQUEST)
    packed["time"], packed["id"], packed["size"] = times, objects, 1
    packed["next_access_vtime"] = next_accesses(objects)
    return _exported(job, packed.tobytes(), "oracleGeneral lru,belady {slots}")


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


def read_trace_text(text: str, separator: str, layers: int, experts: int) -> Accesses:
    """Return the accesses of an exported text trace, with or without a header.

    Parameters
    ----------
    separator
        "," for csv, " " for webcachesim.
    layers, experts
        Of the instance.
    """
    body = text.partition("\n")[2] if text.startswith("time") else text
    try:
        rows = np.loadtxt(io.StringIO(body), dtype=np.int64, delimiter=separator, ndmin=2)
    except ValueError:
        raise InputError("trace: must have lines of time, id and size") from None
    return _accesses(rows[:, 0], rows[:, 1], layers, experts)


def read_oracle_general(payload: bytes, layers: int, experts: int) -> Accesses:
    """Return the accesses of an exported binary trace."""
    if len(payload) % REQUEST.itemsize:
        raise InputError(f"trace: its length is no multiple of {REQUEST.itemsize} bytes")
    rows = np.frombuffer(payload, dtype=REQUEST)
    return _accesses(rows["time"].astype(int), rows["id"].astype(int), layers, experts)


def _accesses(times: Numbers, objects: Numbers, layers: int, experts: int) -> Accesses:
    """Return the experts by token and layer; tokens after the last request are not known."""
    if objects.size and not 0 <= int(objects.min()) <= int(objects.max()) < layers * experts:
        raise InputError(f"trace: id: must be from 0 to {layers * experts - 1}")
    tokens: list[list[list[int]]] = [
        [[] for _ in range(layers)] for _ in range(int(times.max(initial=-1)) + 1)
    ]
    for time, number in zip(times.tolist(), objects.tolist(), strict=True):
        layer, expert = divmod(number, experts)
        tokens[time][layer].append(expert)
    return tuple(tuple(tuple(used) for used in token) for token in tokens)


def _instance(job: Job) -> Instance:
    instance: Any = job.instance
    return instance  # type: ignore[no-any-return]


def _lines(job: Job, separator: str) -> bytes:
    times, objects = requests(_instance(job))
    pairs = zip(times.tolist(), objects.tolist(), strict=True)
    return "".join(f"{time}{separator}{number}{separator}1\n" for time, number in pairs).encode()


def _exported(job: Job, payload: bytes, arguments: str | None) -> Exported:
    instance = _instance(job)
    slots = min(instance.slots, instance.layers * instance.experts)
    known = {"layers": instance.layers, "experts": instance.experts, "slots": slots}
    flags: Callable[[Path], str] | None = None
    if arguments is not None and slots:
        command = arguments.format(slots=slots)

        def flags(path: Path) -> str:
            return f"{shlex.quote(str(path))} {command} --ignore-obj-size 1"

    return Exported(payload, flags, known)
