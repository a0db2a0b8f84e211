"""Making instances of any problem."""

from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from pydantic import ValidationError

from moeopt.errors import InputError, expect
from moeopt.problems.envelope import MAX_NUMBER, InstanceEnvelope
from moeopt.problems.registry import get_problem
from moeopt.problems.wording import describe
from moeopt.sim.cost import DEFAULT_QUANTUM_NS
from moeopt.sim.count_sample import UNKNOWN, counts_of_model
from moeopt.sim.machine import Machine
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.presets import find, get_machine, get_model
from moeopt.sim.source import Source
from moeopt.sim.trace import Counts, Trace
from moeopt.sim.workload import Workload

Option = bool | int | float | str | Path | None
"""A value of an option of a problem's generator."""


def generate(
    problem: str,
    *,
    machine: Machine | str | Path,
    model: ModelShape | str | Path,
    trace: Trace | None = None,
    workload: Workload | str | Path | None = None,
    counts: Counts | None = None,
    seed: int = 0,
    quantum_ns: int | None = None,
    name: str | None = None,
    notes: dict[str, Any] | None = None,
    **options: Option,
) -> InstanceEnvelope:
    """Make an instance of a problem from a machine, a model and a trace or a synthetic workload.

    Parameters
    ----------
    problem
        The problem's name.
    machine, model, workload
        Objects, names of presets (``moeopt list machines``) or JSON files.
    trace
        A routing trace from `moeopt.load_trace`; either this, `workload` or `counts`.
    counts
        Tokens per expert from `moeopt.load_counts`, for placement: its steps are drawn from them,
        which its provenance says. Other problems need what counts do not tell.
    seed
        Chooses the decode step of a real trace, or draws the synthetic one.
    quantum_ns
        Costs are rounded up to multiples of this; by default 5,000, or what the problem's
        generator states as its ``QUANTUM_NS`` where its times are shorter.
    name, notes
        The instance's name, and anything to add to its provenance.
    **options
        The problem's own options, e.g. `layer` and `batch` for tri_domain: the fields of
        ``generator_of(problem).Options``, as ``moeopt generate PROBLEM --help`` lists them.

    Returns
    -------
    Instance
        The same arguments give the same instance, byte for byte when saved.

    Raises
    ------
    InputError
        If any of them is unknown, invalid or does not fit the others.

    Examples
    --------
    >>> import moeopt
    >>> instance = moeopt.generate(
    ...     "tri_domain", machine="trimoe", model="deepseek-v2", workload="trimoe-skew", batch=64
    ... )
    >>> instance.dimms, instance.provenance["model"]
    (16, 'deepseek-v2')
    """
    generator = generator_of(problem)
    for given, value in (("seed", seed), ("quantum_ns", quantum_ns)):
        if value is not None:
            expect(given, value, int, np.integer, what="an integer")
    if trace is not None:
        expect("trace", trace, Trace, what="a trace, from moeopt.load_trace")
    if quantum_ns is None:
        quantum_ns = getattr(generator, "QUANTUM_NS", DEFAULT_QUANTUM_NS)
    if not 1 <= quantum_ns <= MAX_NUMBER:
        raise InputError(f"quantum_ns: must be from 1 to {MAX_NUMBER}, not {quantum_ns}")
    if seed < 0:
        raise InputError(f"seed: must not be negative, not {seed}")
    known = machine if isinstance(machine, Machine) else get_machine(machine)
    shape = model if isinstance(model, ModelShape) else get_model(model)
    if counts is not None:
        expect("counts", counts, Counts, what="counts, from moeopt.load_counts")
        if not getattr(generator, "FROM_COUNTS", False):
            raise InputError(f"generate {problem}: counts: needs a trace or a workload; {UNKNOWN}")
        if trace is not None or workload is not None:
            raise InputError("trace, counts, workload: exactly one of them must be given")
        counts = counts_of_model(counts, shape)
    source = Source(
        machine=known,
        model=shape,
        trace=trace,
        workload=_workload(workload),
        counts=counts,
        seed=seed,
        quantum_ns=quantum_ns,
        name=name,
        notes=notes,
    )
    fields = generator.Options.model_fields
    if unknown := [name for name in options if name not in fields]:
        raise InputError(
            f"generate {problem}: {unknown[0]}: is not a known key; known: {', '.join(fields)}"
        )
    try:
        made: InstanceEnvelope = generator.generate(source, generator.Options(**options))
    except ValidationError as error:
        raise InputError(f"generate {problem}: {describe(error)}") from None
    return made


def generator_of(problem: str) -> ModuleType:
    """Return the generator module of a problem, with its ``Options`` and ``generate``."""
    return import_module(f"moeopt.sim.generators.{get_problem(problem).name}")


def _workload(workload: Workload | str | Path | None) -> Workload | None:
    if workload is None or isinstance(workload, Workload):
        return workload
    return find("workloads", Workload, workload)
