"""Schedules for a runtime: one layer's loads in, a proven schedule out, in a fraction of 1 ms.

A runtime asks once per layer and step, so that nothing is built on the way: no instance, no thread,
no objects of solutions. What a window costs is looked up in plain tables made once; the answer is
what `moeopt.solve` gives on the instance of the same window.
"""

import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self, TypeGuard, get_args

import numpy as np
from numpy.typing import ArrayLike

from moeopt.core.arrays import NOT_THERE, flags, integers
from moeopt.core.compiled import compile_all, compiled
from moeopt.core.envelope import MAX_NUMBER
from moeopt.core.errors import InputError
from moeopt.core.wording import unknown_name
from moeopt.problems.device_loads import (
    CPU,
    DRAM,
    GPU,
    IDLE,
    NDP,
    OWN,
    PLACE,
    STRIPED_READS,
    Ints,
    loads_of,
    makespan_of,
    refine,
)
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS, NS_PER_S, to_quanta
from moeopt.sim.costs.step import Path, step_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_machine, get_model

from .expert import MAX_DIMMS
from .heuristics import cheapest_path
from .threshold import FIRST_WORK, MOST_WORK, NO_CUTOFF, Bracket
from .threshold.incumbent import simple_bound

HIT, MISS, ON_CPU, ON_NDP = 0, 1, 3, 5
"""Rows of a table of costs, in the order of `moeopt.sim.costs.step.Path`.

Of `MISS` and `ON_CPU` there are two, of striped and then of localized experts.
"""


@compiled
def price(tokens: Ints, path_ns: Ints, read_ns: Ints, dimm: Ints, resident: Any, out: Ints) -> int:
    """Fill in the table of the experts that have tokens; return how many, -1 if some has too many.

    Costs by tokens have shape (6, tokens), rows as `HIT` and so on; `read_ns` is how long a host's
    read of a striped and of a localized expert keeps a DIMM busy. `out` has room for 7 times as
    many numbers as there are experts: the table of `moeopt.problems.device_loads`, row after row.
    """
    active = 0
    for i in range(len(tokens)):
        if tokens[i] < 0 or tokens[i] >= path_ns.shape[1]:
            return -1
        active += tokens[i] > 0
    at = 0
    for i in range(len(tokens)):
        count = tokens[i]
        if count == 0:
            continue
        localized = 0 if dimm[i] < 0 else 1
        out[GPU * active + at] = path_ns[HIT if resident[i] else MISS + localized, count]
        out[CPU * active + at] = path_ns[ON_CPU + localized, count]
        out[NDP * active + at] = 0
        read = read_ns[localized]
        out[(DRAM + GPU) * active + at] = 0 if resident[i] else read
        out[(DRAM + CPU) * active + at] = read
        out[(DRAM + NDP) * active + at] = path_ns[ON_NDP, count] if localized else 0
        out[PLACE * active + at] = OWN + dimm[i] if localized else STRIPED_READS
        at += 1
    return active


WHOLE_WAY = (
    (7, 3, 4, 6),
    (5, 1, 1, 7),
    (0, 0, 0, 0),
    (4, 0, 3, 0),
    (4, 5, 3, 5),
    (3, 0, 4, 0),
    (4, 2, 3, 2),
)
"""Four experts on two DIMMs, as a table: the search for their schedule goes all its ways.

Thresholds are refuted, left open, decided by states, and by binding a striped resident to a host.
"""


def prepare(method: str) -> None:
    """Make every call that a schedule may need, so that no later one compiles or loads code."""
    compile_all()
    experts = np.array(WHOLE_WAY, np.int64)
    tokens = np.ones(experts.shape[1], np.int64)
    scheduled(experts, 2, method, tokens, np.empty_like(tokens))


def scheduled(experts: Ints, dimms: int, method: str, tokens: Ints, out: Ints) -> tuple[int, int]:
    """Schedule the experts of a table; return the makespan and a proven lower bound, in ns.

    The domain of every expert of the layer is written to `out`, `IDLE` without tokens.
    """
    active = tokens > 0
    out[:] = IDLE
    if not experts.shape[1]:
        return 0, 0
    domain, makespan, bound = METHODS[method](experts, dimms)
    out[active] = domain
    return int(makespan), int(bound)


def _threshold(experts: Ints, dimms: int) -> tuple[Ints, int, int]:
    """Search as `threshold.solve` does, with the same effort."""
    bracket, work = Bracket(experts, experts.shape[1], dimms), FIRST_WORK
    bracket.narrow(NO_CUTOFF, work)
    while bracket.is_open and work < MOST_WORK:
        work *= 4
        bracket.narrow(NO_CUTOFF, work)
    return bracket.domain, bracket.upper, bracket.lower


def _rule(experts: Ints, dimms: int, refined: bool) -> tuple[Ints, int, int]:
    """Let each expert take its cheapest path, and refine that if wished, as the rules do."""
    never = np.iinfo(np.int64).max
    ndp_ns = np.where(experts[PLACE] == STRIPED_READS, never, experts[DRAM + NDP])
    domain = cheapest_path(np.stack([experts[GPU], experts[CPU], ndp_ns]))
    if refined:
        refine(experts, domain, dimms, False, True)
    makespan = makespan_of(loads_of(experts, domain, dimms), dimms)
    return domain, makespan, simple_bound(experts, dimms)[0]


METHODS: dict[str, Callable[[Ints, int], tuple[Ints, int, int]]] = {
    "threshold": _threshold,
    "trimoe": partial(_rule, refined=True),
    "greedy": partial(_rule, refined=False),
}
"""Method -> the schedule of a table: the domain of each expert, the makespan, a lower bound."""


MOST_TOKENS = 4096
"""Tokens of one expert that a scheduler is ready for, unless told otherwise."""

MAX_TOKENS = 2**20

PATHS: tuple[Path, ...] = get_args(Path)

LAYOUTS = ("striped", "localized")

Layout = ArrayLike | Sequence[int | None]


class Scheduler:
    """Where each expert of a layer runs, decided for the loads that come (TriMoE 4.2).

    Made once per layout, asked once per layer and step. Several threads may ask at once; each has
    buffers of its own. Making it compiles, or loads, whatever a step may need.

    Parameters
    ----------
    machine, model
        Rates and sizes: a `Machine` and a `ModelShape`, or their names or files, as in
        `moeopt.get_machine`. Experts cost what `moeopt.generate` says (TriMoE Eq. 1-4).
    layout
        The DIMM that holds all of each expert, shape (experts,); -1, or None in a list, where it is
        striped over all.
    method
        ``threshold``, which proves its schedules optimal, ``trimoe`` or ``greedy``.
    resident
        Whether each expert's weights are in the GPU's memory, bool, shape (experts,). Default: none
        is.
    dimms
        Number of DIMMs. Default: the machine's.
    quantum_ns
        Costs are rounded up to multiples of this, at least 1.
    most_tokens
        Most tokens that one expert gets in a step; the tables are so long.

    Raises
    ------
    InputError
        If an argument cannot be used, or the machine lacks a path.

    Examples
    --------
    >>> import numpy as np
    >>> from moeopt import tri_domain
    >>> layout = np.arange(64) % 16  # expert -> DIMM; -1: striped over all of them
    >>> layout[:8] = -1
    >>> scheduler = tri_domain.Scheduler("trimoe", "deepseek-v2-lite", layout)
    >>> tokens = np.full(64, 2)
    >>> tokens[:8] = 32
    >>> assignment, makespan_ns, bound_ns = scheduler.schedule(tokens)
    >>> assignment.shape, makespan_ns == bound_ns
    ((64,), True)
    """

    def __init__(
        self,
        machine: Machine | str | pathlib.Path,
        model: ModelShape | str | pathlib.Path,
        layout: Layout,
        method: str = "threshold",
        *,
        resident: ArrayLike | None = None,
        dimms: int | None = None,
        quantum_ns: int = DEFAULT_QUANTUM_NS,
        most_tokens: int = MOST_TOKENS,
    ) -> None:
        machine = get_machine(machine)
        model = get_model(model)
        most_tokens = _number("most_tokens", most_tokens, MAX_TOKENS)
        quantum_ns = _number("quantum_ns", quantum_ns, MAX_NUMBER)
        dimms = machine.dimm_count if dimms is None else _number("dimms", dimms, MAX_DIMMS)
        tokens = np.arange(1, most_tokens + 1)
        path_ns = np.zeros((len(PATHS), most_tokens + 1), np.int64)
        for row, path in enumerate(PATHS):
            path_ns[row, 1:] = step_costs(machine, model).path_ns(path, tokens, quantum_ns)
        reads = [step_costs(machine, model).dram_read_s(how) * NS_PER_S for how in LAYOUTS]
        experts = model.routed_experts
        self._begin(
            path_ns,
            to_quanta(reads, quantum_ns),
            _dimms_of("layout", layout, experts, dimms),
            _residents_of("resident", resident, experts),
            dimms,
            method,
        )

    @classmethod
    def from_tables(
        cls,
        path_ns: Mapping[str, ArrayLike],
        read_ns: Mapping[str, int],
        layout: Layout,
        dimms: int,
        method: str = "threshold",
        *,
        resident: ArrayLike | None = None,
    ) -> Self:
        """Return the scheduler of measured costs.

        Parameters
        ----------
        path_ns
            For each path of `moeopt.sim.costs.step.Path`, what an expert costs by its tokens,
            from 0 on, in ns, all of one shape (most tokens + 1,).
        read_ns
            For "striped" and "localized", how long a host's read keeps a DIMM busy, in ns.
        layout, dimms, method, resident
            As of the class.

        Raises
        ------
        InputError
            If a table is missing, of another shape, or has an entry that is no duration.
        """
        for name, given, due in (("path_ns", path_ns, PATHS), ("read_ns", read_ns, LAYOUTS)):
            if not isinstance(given, Mapping):
                raise InputError(f"{name}: must be a dictionary with keys {', '.join(due)}")
            if missing := [key for key in due if key not in given]:
                raise InputError(f"{name}: {missing[0]} is missing")
        dimms = _number("dimms", dimms, MAX_DIMMS)
        length = len(integers(f"path_ns.{PATHS[0]}", path_ns[PATHS[0]], (None,), axes="(tokens,)"))
        if not length:
            raise InputError(f"path_ns.{PATHS[0]}: must have an entry, for no tokens")
        rows = [integers(f"path_ns.{p}", path_ns[p], (length,), axes="(tokens,)") for p in PATHS]
        reads = [int(integers(f"read_ns.{how}", read_ns[how], ())) for how in LAYOUTS]
        experts = len(np.atleast_1d(np.asarray(layout, dtype=object)))
        made = cls.__new__(cls)
        made._begin(
            np.stack(rows),
            np.array(reads, np.int64),
            _dimms_of("layout", layout, experts, dimms),
            _residents_of("resident", resident, experts),
            dimms,
            method,
        )
        return made

    def _begin(
        self, path_ns: Ints, read_ns: Ints, dimm: Ints, resident: Ints, dimms: int, method: str
    ) -> None:
        if method not in METHODS:
            raise unknown_name("method", method, METHODS)
        self.method, self.dimms, self.experts = method, dimms, len(dimm)
        self._path_ns, self._read_ns = path_ns, read_ns
        self._dimm, self._resident = dimm, resident
        self._own = threading.local()
        prepare(method)
        self.schedule(np.zeros(self.experts, np.int64))

    def schedule(
        self,
        tokens: ArrayLike,
        *,
        layout: Layout | None = None,
        resident: ArrayLike | None = None,
        out: Ints | None = None,
    ) -> tuple[Ints, int, int]:
        """Return a schedule of one step's loads.

        Parameters
        ----------
        tokens
            Tokens of each expert, integers of shape (experts,); 0 where it has none.
        layout, resident
            In place of the scheduler's own, for this call: where experts migrate, or a cache
            changes what is on the GPU.
        out
            A contiguous int64 array of shape (experts,) to write the assignment to; it may be
            `tokens`. Default: a new one.

        Returns
        -------
        assignment
            int64, shape (experts,): 0 GPU, 1 CPU, 2 NDP, -1 where there are no tokens.
        makespan_ns
            When the last device is done (Eq. 7), in ns.
        bound_ns
            Every schedule of these loads takes at least that long, proven; it equals `makespan_ns`
            where the schedule is optimal.

        Raises
        ------
        InputError
            If an array is of another shape or type, or an entry is out of range.
        """
        size = self.experts
        if _plain(tokens, size):
            load = tokens
        else:
            load = integers("tokens", tokens, (size,), axes="(experts,)")
        dimm, held = self._dimm, self._resident
        if layout is not None:
            dimm = _dimms_of("layout", layout, self.experts, self.dimms)
        if resident is not None:
            held = _residents_of("resident", resident, self.experts)
        if out is None:
            out = np.empty(self.experts, np.int64)
        elif not _plain(out, size):
            raise InputError(f"out: must be a writable, contiguous int64 array of shape ({size},)")
        elif np.may_share_memory(load, out):
            load = load.copy()
        buffer = getattr(self._own, "buffer", None)
        if buffer is None:
            buffer = self._own.buffer = np.empty(7 * self.experts, np.int64)
        active = price(load, self._path_ns, self._read_ns, dimm, held, buffer)
        if active < 0:
            most = self._path_ns.shape[1] - 1
            integers("tokens", load, (self.experts,), axes="(experts,)", most=most)
        makespan_ns, bound_ns = scheduled(
            buffer[: 7 * active].reshape(7, active), self.dimms, self.method, load, out
        )
        return out, makespan_ns, bound_ns

    def __repr__(self) -> str:
        return f"<tri_domain scheduler {self.method}: {self.experts} experts, {self.dimms} DIMMs>"


def _number(name: str, value: int, most: int) -> int:
    """Return a positive integer argument."""
    return int(integers(name, value, (), least=1, most=most))


def _plain(values: object, size: int) -> TypeGuard[Ints]:
    """Tell whether a value is an array of the kind that kernels are compiled for, and so long."""
    if not isinstance(values, np.ndarray) or values.dtype != np.int64:
        return False
    return values.shape == (size,) and values.flags.carray


def _dimms_of(name: str, layout: Any, experts: int, dimms: int) -> Ints:
    """Return a layout as integers, `NOT_THERE` where an expert is striped."""
    if isinstance(layout, list | tuple):
        layout = [NOT_THERE if dimm is None else dimm for dimm in layout]
    return integers(
        name, layout, (experts,), axes="(experts,)", least=NOT_THERE, most=int(dimms) - 1
    )


def _residents_of(name: str, resident: ArrayLike | None, experts: int) -> Any:
    if resident is None:
        return np.zeros(experts, np.bool_)
    return flags(name, resident, (experts,), "(experts,)")


def compile_kernels() -> None:
    """Compile the kernels of the scheduler by scheduling a layer with each method."""
    tokens = np.arange(1, 65)
    for method in METHODS:
        Scheduler("trimoe", "deepseek-v2-lite", tokens % 16, method).schedule(tokens)
