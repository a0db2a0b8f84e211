"""Run a problem's algebraic model (GNU MathProg) with GLPK.

The model prints its own solution as JSON in the contract's form, so that it can be used with plain
``glpsol`` too, and no decoding stands between the mathematics and the checker.
"""

import ctypes
import json
import re
import tempfile
import threading
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import swiglpk as glpk
from scipy.sparse import csr_array

from moeopt.core.clock import TimeLimitError, counts_work, spend
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import ModelMismatchError
from moeopt.core.safe_bound import Program, Vector, claim_tolerance, safe_bound
from moeopt.solvers.interrupt import run_interruptible
from moeopt.solvers.task import Outcome, Task
from moeopt.solvers.verification import verified

TOLERANCE = 1e-7
"""To which GLPK keeps the signs of reduced costs within branch and bound; it cannot be set."""

NATIVE = ctypes.CDLL(glpk._swiglpk.__file__)
"""The same library, called as `ctypes` does: meanwhile other threads run."""

CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p)

GLPK_CALLBACK_AT = 48
"""Where a `glp_iocp` has its callback, in bytes: after four ints, two doubles, and four ints; SWIG
offers no way to set it."""

GLPK_LONGEST_S = 2_000_000.0
"""Its limit is an int of milliseconds."""

GLPK_NODE_WORK = 1e-6
"""Units of work that a node takes for each nonzero, row and column."""

ALONE = threading.Lock()

DECLARATION = re.compile(r"^\s*(?:param|set)\s+(\w+)", re.MULTILINE)


def data_section(model: str, instance: InstanceEnvelope, output: Path) -> str:
    """Return the MathProg data section of an instance, for the names that `model` declares.

    A list of objects ``experts`` gives the set ``experts`` (0, 1, ...) and one parameter per field;
    nested lists give one more index each, and so do objects with numbers as keys; null leaves the
    entry to the parameter's default. A list of objects within the objects of another one gives a
    set of pairs, and parameters with both indices, called ``<list>_<field>`` where the model
    declares that. An object gives a parameter ``<object>_<field>`` for each field. The length of a
    list of plain values or lists is ``<name>_length``, where the model asks for it.
    `output` is the file the model prints its solution to.
    """
    declared = set(DECLARATION.findall(model))
    entries: dict[str, list[str]] = {"output": [_quoted(output.as_posix())]}
    members: dict[str, list[str]] = {}
    for name, value in instance.model_dump(mode="json").items():
        if isinstance(value, str):
            entries[name] = [_quoted(value)]
        elif _has_objects(value):
            _collect(name, value, (), entries, members, declared)
        elif isinstance(value, Mapping) and value and not all(map(str.isdigit, value)):
            for inner, item in value.items():
                entries.setdefault(f"{name}_{inner}", []).extend(_entries(item, ()))
        else:
            entries.setdefault(name, []).extend(_entries(value, ()))
            if isinstance(value, list):
                entries[f"{name}_length"] = [str(len(value))]
    lines = ["data;"]
    for kind, found in (("set", members), ("param", entries)):
        lines += [
            f"{kind} {name} := {' '.join(values)};"
            for name, values in found.items()
            if name in declared and values
        ]
    return "\n".join([*lines, "end;", ""])


def _collect(
    name: str,
    rows: Sequence[Mapping[str, Any]],
    index: tuple[int, ...],
    entries: dict[str, list[str]],
    members: dict[str, list[str]],
    declared: Container[str],
) -> None:
    """Add the fields of a list of objects as parameters, and their positions as a set."""
    for number, item in enumerate(rows):
        place = (*index, number)
        text = ",".join(map(str, place))
        members.setdefault(name, []).append(text if len(place) == 1 else f"({text})")
        for field, inner in item.items():
            if _has_objects(inner):
                _collect(field, inner, place, entries, members, declared)
            else:
                longer = f"{name}_{field}"
                known = longer if len(place) > 1 and longer in declared else field
                entries.setdefault(known, []).extend(_entries(inner, place))


def _has_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _entries(value: Any, index: tuple[int, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key.isdigit():
                yield from _entries(inner, (*index, int(key)))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for position, inner in enumerate(value):
            yield from _entries(inner, (*index, position))
    elif isinstance(value, int):  # a bool is 0 or 1
        yield " ".join(map(str, [*index, int(value)]))


def run(task: Task) -> Outcome:
    """Translate, solve and let the model print its solution.

    GLPK cannot be interrupted: its branch and bound ends by itself at the limit; a model that it is
    still generating then is left behind, and who comes next waits until it has finished.
    """
    limit_s = task.deadline.remaining_s
    running = run_interruptible(lambda: _run_alone(task), lambda: None, limit_s)
    if running.value is None:
        outcome = Outcome(None, "LEFT BEHIND", "time_limit", engine="glpk", build_s=limit_s)
        if running.interrupted:
            outcome.termination = "interrupted"
        return outcome
    running.value.floats = True
    return verified(task, running.value)


def _run_alone(task: Task) -> Outcome:
    """Run one model at a time: GLPK's memory is that of the process, not of a thread."""
    seconds = task.deadline.clock.seconds_for(task.deadline.remaining_s)
    if not ALONE.acquire(timeout=min(seconds, threading.TIMEOUT_MAX)):
        raise TimeLimitError
    try:
        return _run(task)
    finally:
        ALONE.release()


def _run(task: Task) -> Outcome:
    deadline = task.deadline
    begin = deadline.elapsed_s
    glpk.glp_term_out(glpk.GLP_OFF)
    translator, problem = glpk.glp_mpl_alloc_wksp(), glpk.glp_create_prob()
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "solution.json"
        try:
            _translate(task, translator, problem, Path(folder), printed)
            deadline.checkpoint()
            build_end = deadline.elapsed_s
            outcome = _solve(task, problem)
            if outcome.claim is not None:
                glpk.glp_mpl_postsolve(translator, problem, glpk.GLP_MIP)
        finally:
            glpk.glp_mpl_free_wksp(translator)  # closes the printed file
            glpk.glp_delete_prob(problem)
        if outcome.claim is not None:
            outcome.solution = _read_printed(task, printed)
    outcome.build_s, outcome.solve_s = build_end - begin, deadline.elapsed_s - build_end
    return outcome


def _translate(task: Task, translator: Any, problem: Any, folder: Path, printed: Path) -> None:
    model_file = task.problem.mathprog_file
    data_file = folder / "instance.dat"
    data_file.write_text(data_section(model_file.read_text(), task.instance, printed))
    failed = (
        glpk.glp_mpl_read_model(translator, str(model_file), 1)
        or glpk.glp_mpl_read_data(translator, str(data_file))
        or _generate(translator)
    )
    if failed:
        raise ModelMismatchError(f"GLPK rejects {model_file.name} with the data of the instance")
    glpk.glp_mpl_build_prob(translator, problem)
    _neutralise(problem, task.without)


def _generate(translator: Any) -> int:
    """Generate the model, which can take seconds, without Python's lock."""
    return int(NATIVE.glp_mpl_generate(ctypes.c_void_p(int(translator)), None))


def _neutralise(problem: Any, without: frozenset[str]) -> None:
    """Free the rows of the constraints left out: ``TD_C1[3]`` belongs to TD-C1."""
    left_out = {constraint.replace("-", "_") for constraint in without}
    for row in range(1, glpk.glp_get_num_rows(problem) + 1):
        name = glpk.glp_get_row_name(problem, row).split("[")[0]
        if "_".join(name.split("_")[:2]) in left_out:
            glpk.glp_set_row_bnds(problem, row, glpk.GLP_FR, 0, 0)


def _solve(task: Task, problem: Any) -> Outcome:
    parameters = glpk.glp_iocp()
    glpk.glp_init_iocp(parameters)
    parameters.presolve = glpk.GLP_ON
    remaining = task.deadline.remaining_s
    seconds = task.deadline.clock.seconds_for(remaining)
    if seconds < GLPK_LONGEST_S:
        parameters.tm_lim = max(1, int(seconds * 1000))
    with _node_limit(problem, parameters, remaining):
        code = glpk.glp_intopt(problem, parameters)
    status = glpk.glp_mip_status(problem)
    outcome = Outcome(None, f"GLPK {code} / {status}", engine="glpk")
    if code == glpk.GLP_ENOPFS or status == glpk.GLP_NOFEAS:
        outcome.proven = "infeasible"
    elif status == glpk.GLP_OPT:
        outcome.proven = "optimal"
    else:
        outcome.termination = "time_limit"
    if status in (glpk.GLP_OPT, glpk.GLP_FEAS):
        value = glpk.glp_mip_obj_val(problem)
        outcome.claim = round(value)
        outcome.tolerance = claim_tolerance(outcome.claim)
        if outcome.proven == "optimal":
            outcome.bound = safe_bound(_program(problem), value, TOLERANCE)
    return outcome


@contextmanager
def _node_limit(problem: Any, parameters: Any, remaining: float) -> Iterator[None]:
    """Let branch and bound end after the nodes that a work limit allows, and report them.

    GLPK calls back at each node. Nothing counts within one: the relaxation of the root, and of a
    node, takes what it takes.
    """
    if not counts_work():
        yield
        return
    size = glpk.glp_get_num_nz(problem) + glpk.glp_get_num_rows(problem)
    node_work = GLPK_NODE_WORK * (size + glpk.glp_get_num_cols(problem))
    most, done = int(min(remaining / node_work, 1e9)), 0

    def count(tree: int, _: None) -> None:
        nonlocal done
        if NATIVE.glp_ios_reason(ctypes.c_void_p(tree)) == glpk.GLP_ISELECT:
            done += 1
            if done > most:
                NATIVE.glp_ios_terminate(ctypes.c_void_p(tree))

    called = CALLBACK(count)
    pointer = ctypes.cast(called, ctypes.c_void_p).value or 0
    at = int(parameters.this) + GLPK_CALLBACK_AT
    ctypes.c_void_p.from_address(at).value = pointer
    try:
        yield
    finally:
        ctypes.c_void_p.from_address(at).value = None
        spend(done * node_work)


def _program(problem: Any) -> Program:
    """Return GLPK's problem as arrays."""
    rows = range(1, glpk.glp_get_num_rows(problem) + 1)
    columns = range(1, glpk.glp_get_num_cols(problem) + 1)
    index, entry = glpk.intArray(len(columns) + 1), glpk.doubleArray(len(columns) + 1)
    data: list[float] = []
    indices: list[int] = []
    starts = [0]
    for row in rows:
        count = glpk.glp_get_mat_row(problem, row, index, entry)
        indices += [index[place] - 1 for place in range(1, count + 1)]
        data += [entry[place] for place in range(1, count + 1)]
        starts.append(len(data))
    integer = [glpk.glp_get_col_kind(problem, c) != glpk.GLP_CV for c in columns]
    return Program(
        cost=np.array([glpk.glp_get_obj_coef(problem, c) for c in columns]),
        lower=_bounds([glpk.glp_get_col_lb(problem, c) for c in columns]),
        upper=_bounds([glpk.glp_get_col_ub(problem, c) for c in columns]),
        integer=np.array(integer, dtype=np.int64),
        rows=csr_array((data, indices, starts), shape=(len(rows), len(columns))),
        row_lower=_bounds([glpk.glp_get_row_lb(problem, r) for r in rows]),
        row_upper=_bounds([glpk.glp_get_row_ub(problem, r) for r in rows]),
        constant=glpk.glp_get_obj_coef(problem, 0),
    )


def _bounds(values: list[float]) -> Vector:
    """Return bounds as an array: GLPK's infinity is the largest double."""
    bounds = np.array(values)
    largest = np.finfo(float).max
    bounds[bounds >= largest], bounds[bounds <= -largest] = np.inf, -np.inf
    return bounds


def _read_printed(task: Task, printed: Path) -> Any:
    decision = json.loads(printed.read_text())
    solution = task.problem.solution
    return solution(instance=task.instance.name, **decision)
