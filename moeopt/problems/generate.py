"""Making instances of any problem."""

import warnings
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

from moeopt.core.envelope import MAX_NUMBER, InstanceEnvelope
from moeopt.core.errors import InputError, MoeoptWarning, expect
from moeopt.core.problem import Phases, Stretch
from moeopt.core.wording import input_error, meant, suggested
from moeopt.problems.needs import check_needs
from moeopt.problems.registry import get_problem
from moeopt.problems.twins import DRAWN_TOKENS, DRAWN_WINDOWS
from moeopt.sim.costs.quanta import DEFAULT_QUANTUM_NS
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import find, get_machine, get_model
from moeopt.sim.source import ANY_MACHINE, Source, check_felt
from moeopt.sim.traces.count_sample import UNKNOWN, counts_of_model
from moeopt.sim.traces.given import as_counts, as_trace
from moeopt.sim.traces.trace import Counts, Trace
from moeopt.sim.traces.workload import Workload

Option = bool | int | float | str | Path | None
"""A value of an option of a problem's generator."""


def generate(
    problem: str,
    *,
    machine: Machine | str | Path | None = None,
    model: ModelShape | str | Path,
    trace: Trace | str | Path | None = None,
    workload: Workload | str | Path | None = None,
    counts: Counts | str | Path | None = None,
    seed: int = 0,
    quantum_ns: int | None = None,
    name: str | None = None,
    notes: dict[str, object] | None = None,
    **options: Option,
) -> InstanceEnvelope:
    """Make an instance of a problem from a machine, a model and a trace or a synthetic workload.

    Parameters
    ----------
    problem
        The problem's name.
    machine, model, workload
        Objects, names of presets (``moeopt list machines``) or JSON files. bitwidth and replication
        need no machine: one that is given stands in the provenance and changes nothing else.
    trace
        A routing trace from `moeopt.load_trace`, or its file; either this, `workload` or `counts`.
    counts
        Tokens per expert from `moeopt.load_counts`, or their file, for placement: its steps are
        drawn from them, which its provenance says. For split they say which experts a prompt
        activates, layer by layer. Other problems need what counts do not tell.
    seed
        Chooses the decode step of a real trace, or draws the synthetic one.
    quantum_ns
        Costs are rounded up to multiples of this; by default 5,000, or what the problem's
        generator states where its times are shorter.
    name, notes
        The instance's name, and anything to add to its provenance.
    **options
        The problem's own options, e.g. `layer` and `batch` for tri_domain: the fields of
        ``get_problem(problem).Options()``, as ``moeopt generate PROBLEM --help`` lists them.

    Returns
    -------
    Instance
        The same arguments give the same instance, byte for byte when saved.

    Raises
    ------
    InputError
        If any of them is unknown, invalid, says nothing of the problem or does not fit the others.

    Examples
    --------
    >>> import moeopt
    >>> instance = moeopt.generate(
    ...     "tri_domain", machine="trimoe", model="deepseek-v2", workload="trimoe-skew", batch=64
    ... )
    >>> instance.dimms, instance.provenance["model"]
    (16, 'deepseek-v2')
    """
    quantum = _quantum(problem, quantum_ns)
    routing = as_trace(trace), _workload(workload), as_counts(counts)
    parts = _machine(problem, machine), get_model(model), *routing
    named = machine is not None
    return generate_from(problem, Source(*parts, seed, quantum, name, notes, named), options)


def generate_from(problem: str, source: Source, options: Mapping[str, Option]) -> InstanceEnvelope:
    """Make an instance from what all generators start from; errors as in `generate`."""
    return _made(
        problem,
        _checked(problem, source),
        _stepwise(problem, options, source.trace, source.workload),
    )


def generate_twins(
    problem: str,
    *,
    later: int | None = None,
    machine: Machine | str | Path | None = None,
    model: ModelShape | str | Path,
    trace: Trace | str | Path | None = None,
    workload: Workload | str | Path | None = None,
    seed: int = 0,
    quantum_ns: int | None = None,
    name: str | None = None,
    notes: dict[str, object] | None = None,
    **options: Option,
) -> tuple[InstanceEnvelope, InstanceEnvelope]:
    """Make an instance of observed loads, and one of those that come right after them.

    What is decided on the first one can be run on the second one: `moeopt.run_on`, or with all
    references `moeopt.holdout`. The first one's forecast has seen nothing of the second one.

    Parameters
    ----------
    problem
        One whose decisions outlast the loads they were made on.
    later
        How many steps, tokens or windows come later; by default as many as are observed. Problems
        that tell phases apart, as relayout does predicted and actual loads, have no such number.
    machine, model, trace, workload, seed, quantum_ns, notes, **options
        As in `generate`. The option that says how many loads there are, such as `windows` of
        layout, is about the observed ones.
    name
        Of the first instance; the second one is called so with "-later" added.

    Returns
    -------
    tuple
        Both instances; `moeopt.holdout` recognises them by their provenance.

    Raises
    ------
    InputError
        As in `generate`; or if decisions of the problem are made anew for all loads.

    Examples
    --------
    >>> import moeopt
    >>> observed, later = moeopt.generate_twins(
    ...     "layout", machine="trimoe", model="deepseek-v2-lite", workload="trimoe-skew", windows=2,
    ...     later=3,
    ... )
    >>> len(observed.scenarios), len(later.scenarios)
    (2, 3)
    """
    holdout = get_problem(problem).holdout
    if holdout is None:
        raise InputError(f"generate {problem}: a decision is made anew for all loads")
    quantum = _quantum(problem, quantum_ns)
    parts = _machine(problem, machine), get_model(model), as_trace(trace), _workload(workload)
    named = machine is not None
    source = _checked(problem, Source(*parts, None, seed, quantum, name, notes, named))
    asked = _stepwise(problem, options, source.trace, source.workload)
    following = source if name is None else replace(source, name=f"{name}-later")
    if isinstance(holdout, Phases):
        if later is not None:
            raise InputError(
                f"{problem} has {' and '.join(holdout.order)} loads, no number", field="later"
            )
        if holdout.option in asked:
            order = ", then ".join(holdout.order)
            raise InputError(f"{holdout.option}: is not to be given: it is {order}")
        phases = [asked | {holdout.option: phase} for phase in holdout.order]
        return _made(problem, source, phases[0]), _made(problem, following, phases[1])
    field = get_problem(problem).Options().model_fields[holdout.length]
    observed = asked.get(holdout.length, field.default)
    if not isinstance(observed, int) or isinstance(observed, bool) or observed < 1:
        raise InputError(f"{holdout.length}: must say how many loads are observed")
    expect("later", count := observed if later is None else later, int, what="an integer")
    if count < 1:
        raise InputError(f"must be at least 1, not {count}", field="later")
    whole = asked | {holdout.length: observed + count}
    drawn = None
    if workload is not None:
        drawn = get_problem(problem).trace_of(source, _options(problem, whole))
    if drawn is not None:
        facts = (drawn.facts or {}) | {DRAWN_TOKENS: drawn.tokens}
        source, following = (
            replace(one, trace=replace(drawn, facts=facts), workload=None)
            for one in (source, following)
        )
    said = (_made(problem, source, whole).provenance or {})["options"]
    spacing = 1 if holdout.spacing is None else said[holdout.spacing]
    common = asked | {name: said[name] for name in (DRAWN_WINDOWS,) if name in said}
    first = {holdout.first: said[holdout.first], holdout.length: observed}
    if holdout.unseen is not None:
        first |= {holdout.unseen: count}
    second = {holdout.first: said[holdout.first] + observed * spacing, holdout.length: count}
    return _made(problem, source, common | first), _made(problem, following, common | second)


def refuse_unfelt(
    problem: str,
    *,
    model: ModelShape,
    trace: Trace | None,
    workload: str | None,
    counts: Counts | None,
    seed: int,
    later: int,
    options: Mapping[str, object],
) -> None:
    """Refuse what was asked for and would change nothing; for people, not for sweeps over options.

    Parameters
    ----------
    later
        How many loads the second instance of `generate_twins` has at least; 0 without one.

    Raises
    ------
    InputError
        It names the option as on a command line, and says where it is felt.
    """
    law = _workload(workload)
    options = _stepwise(problem, options, trace, law)
    read, holdout = _options(problem, options), get_problem(problem).holdout
    if later and isinstance(holdout, Stretch):
        longer = (getattr(read, holdout.length) or 0) + later
        read = read.model_copy(update={holdout.length: longer})
    check_felt(read, Source(get_machine(ANY_MACHINE), model, trace, law, counts, seed))


def _quantum(problem: str, quantum_ns: int | None) -> int:
    """Return what costs are rounded up to multiples of."""
    if quantum_ns is None:
        return get_problem(problem).quantum_ns() or DEFAULT_QUANTUM_NS
    expect("quantum_ns", quantum_ns, int, np.integer, what="an integer")
    if not get_problem(problem).rounds_times:
        raise InputError(
            "has no effect: no times are rounded", where=f"generate {problem}", field="quantum_ns"
        )
    if not 1 <= quantum_ns <= MAX_NUMBER:
        raise InputError(f"must be from 1 to {MAX_NUMBER}, not {quantum_ns}", field="quantum_ns")
    return quantum_ns


def _machine(problem: str, machine: Machine | str | Path | None) -> Machine:
    """Return the machine that was given; any one where none is, and none is needed."""
    if machine is None and get_problem(problem).machine_parts:
        raise InputError("is missing", where=f"generate {problem}", field="machine")
    return get_machine(ANY_MACHINE if machine is None else machine)


def _checked(problem: str, source: Source) -> Source:
    """Return what a problem's generator starts from, with the model's counts; see `generate`."""
    expect("seed", source.seed, int, np.integer, what="an integer")
    if source.seed < 0:
        raise InputError(f"must not be negative, not {source.seed}", field="seed")
    if source.trace is not None:
        expect("trace", source.trace, Trace, what="a trace or its file")
    check_needs(problem, source.machine)
    taken_as_one = source.machine.taken_as_one
    if taken_as_one is not None and problem not in ("split", "replication"):
        warnings.warn(taken_as_one, MoeoptWarning, stacklevel=3)
    if not get_problem(problem).from_routing:
        for field in ("trace", "workload"):
            if getattr(source, field) is not None:
                raise InputError(
                    "has no effect: nothing depends on which experts tokens choose",
                    where=f"generate {problem}",
                    field=field,
                )
    if source.counts is None:
        return source
    expect("counts", source.counts, Counts, what="counts or their file")
    if not get_problem(problem).from_counts:
        raise InputError(f"generate {problem}: counts: needs a trace or a workload; {UNKNOWN}")
    if source.trace is not None or source.workload is not None:
        raise InputError("trace, counts, workload: exactly one of them must be given")
    return replace(source, counts=counts_of_model(source.counts, source.model))


def _options(problem: str, options: Mapping[str, object]) -> Any:
    """Return a problem's own options; see `generate`."""
    fields = get_problem(problem).Options().model_fields
    if unknown := [name for name in options if name not in fields]:
        raise InputError(
            f"is not a known key{meant(unknown[0], fields) or ';'} known: {', '.join(fields)}",
            where=f"generate {problem}",
            field=unknown[0],
            suggestion=suggested(unknown[0], fields),
        )
    try:
        return get_problem(problem).Options()(**options)
    except ValidationError as error:
        raise input_error(error, f"generate {problem}") from None


def _stepwise(
    problem: str,
    options: Mapping[str, object],
    trace: Trace | None,
    workload: Workload | None,
) -> dict[str, object]:
    """Return the options; without a trace steps are windows unless it is said otherwise.

    A workload is drawn step by step, and counts know no steps; a trace is read by many requests.
    """
    if (trace is not None and workload is None) or "batching" not in get_problem(
        problem
    ).Options().model_fields:
        return dict(options)
    return {"batching": "window", **options}


def _made(problem: str, source: Source, options: Mapping[str, object]) -> InstanceEnvelope:
    """Return the instance of a source; see `generate`."""
    try:
        made: InstanceEnvelope = get_problem(problem).generate(source, _options(problem, options))
    except ValidationError as error:
        raise input_error(error, f"generate {problem}") from None
    return made


def _workload(workload: Workload | str | Path | None) -> Workload | None:
    if workload is None or isinstance(workload, Workload):
        return workload
    return find("workloads", Workload, workload)
