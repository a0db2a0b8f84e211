"""Run a problem's algebraic model (GNU MathProg) with GLPK, in a process of its own.

The model prints its own solution as JSON in the contract's form, so that it can be used with plain
``glpsol`` too, and no decoding stands between the mathematics and the checker.
"""

import json
import re
import tempfile
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from moeopt.core.clock import counts_work, solving_clock, spend
from moeopt.core.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.core.errors import ModelMismatchError
from moeopt.core.json_files import JsonObject
from moeopt.core.safe_bound import claim_tolerance
from moeopt.solvers.process import Process, ProcessEndedError, Words
from moeopt.solvers.task import Outcome, Task

DECLARATION = re.compile(r"^\s*(?:param|set)\s+(\w+)", re.MULTILINE)


def data_section(
    model: str,
    instance: InstanceEnvelope,
    output: Path,
    checkpoint: Callable[[], None] = lambda: None,
) -> str:
    """Return the MathProg data section of an instance, for the names that `model` declares.

    A list of objects ``experts`` gives the set ``experts`` (0, 1, ...) and one parameter per field;
    nested lists give one more index each, and so do objects with numbers as keys; null leaves the
    entry to the parameter's default. A list of objects within the objects of another one gives a
    set of pairs, and parameters with both indices, called ``<list>_<field>`` where the model
    declares that. An object gives a parameter ``<object>_<field>`` for each field. The length of a
    list of plain values or lists is ``<name>_length``, where the model asks for it.
    `output` is the file the model prints its solution to; `checkpoint` may raise at any entry.
    """
    declared = set(DECLARATION.findall(model))
    entries: dict[str, list[str]] = {"output": [_quoted(output.as_posix())]}
    members: dict[str, list[str]] = {}
    for name, value in instance.model_dump(mode="json").items():
        checkpoint()
        if isinstance(value, str):
            entries[name] = [_quoted(value)]
        elif _has_objects(value):
            _collect(name, value, (), entries, members, declared, checkpoint)
        elif isinstance(value, Mapping) and value and not all(map(str.isdigit, value)):
            for inner, item in value.items():
                checkpoint()
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
    rows: Sequence[JsonObject],
    index: tuple[int, ...],
    entries: dict[str, list[str]],
    members: dict[str, list[str]],
    declared: Container[str],
    checkpoint: Callable[[], None],
) -> None:
    """Add the fields of a list of objects as parameters, and their positions as a set."""
    for number, item in enumerate(rows):
        checkpoint()
        place = (*index, number)
        text = ",".join(map(str, place))
        members.setdefault(name, []).append(text if len(place) == 1 else f"({text})")
        for field, inner in item.items():
            if _has_objects(inner):
                _collect(field, inner, place, entries, members, declared, checkpoint)
            else:
                longer = f"{name}_{field}"
                known = longer if len(place) > 1 and longer in declared else field
                entries.setdefault(known, []).extend(_entries(inner, place))


def _has_objects(value: object) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def _entries(value: Any, index: tuple[int, ...]) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key.isdigit():
                yield from _entries(inner, (*index, int(key)))
    elif type(value) is list and all(type(item) is int for item in value):
        head = "".join(f"{place} " for place in index)
        yield from (f"{head}{position} {item}" for position, item in enumerate(value))
    elif isinstance(value, Sequence) and not isinstance(value, str):
        for position, inner in enumerate(value):
            yield from _entries(inner, (*index, position))
    elif isinstance(value, int):  # a bool is 0 or 1
        yield " ".join(map(str, [*index, int(value)]))


def run(task: Task) -> Outcome:
    """Translate, solve and let the model print its solution.

    GLPK's generator of models cannot be interrupted: who is late is ended with its process.
    """
    deadline = task.deadline
    begin = deadline.elapsed_s
    with solving_clock().standing():
        process = _process()
    with tempfile.TemporaryDirectory() as folder:
        printed = Path(folder) / "solution.json"
        asked = _asked(task, Path(folder), printed)
        deadline.checkpoint()
        limit = deadline.remaining_s
        try:
            running = process.ask_within(asked, limit)
        except ProcessEndedError as error:  # its own assertions end it on some large numbers
            return Outcome(None, f"GLPK gave up: {error}", engine="glpk")
        answer = running.value
        if answer is None or running.interrupted:
            outcome = Outcome(None, "ENDED", "time_limit", engine="glpk", build_s=limit)
            if running.interrupted:
                outcome.termination = "interrupted"
            return outcome
        if answer.get("rejected"):
            name = task.problem.mathprog_file.name
            raise ModelMismatchError(f"GLPK rejects {name} with the data of the instance")
        outcome = _outcome(answer)
        if outcome.claim is not None:
            outcome.solution = _read_printed(task, printed)
    outcome.solve_s = deadline.elapsed_s - begin - outcome.build_s
    outcome.by, outcome.counts = "glpk", False  # its numbers are those of the instance, in doubles
    return outcome


_kept: list[Process] = []
"""The process, once there is one: GLPK's memory is that of a process."""


def _process() -> Process:
    if not _kept or not _kept[0].alive:
        _kept[:] = [Process("moeopt.solvers.glpk")]
    return _kept[0]


def _asked(task: Task, folder: Path, printed: Path) -> Words:
    """Return the request, with the data in a file."""
    model, data = task.problem.mathprog_file, folder / "instance.dat"
    text = data_section(model.read_text(), task.instance, printed, task.deadline.checkpoint)
    data.write_text(text)
    left = task.deadline.left()
    return {
        "model": str(model),
        "data": str(data),
        "bytes": len(text),
        "without": [constraint.replace("-", "_") for constraint in sorted(task.without)],
        "seconds": left.time_limit_s,
        "work": left.work if counts_work() else None,
    }


def _outcome(answer: Words) -> Outcome:
    spend(answer["work"])
    if late := answer.get("late"):
        return Outcome(None, late, "time_limit", engine="glpk")
    outcome = Outcome(None, f"GLPK {answer['code']} / {answer['status']}", engine="glpk")
    outcome.proven, outcome.claim = answer["proven"], answer["objective"]
    outcome.bound, outcome.build_s = answer["bound"], answer["build_s"]
    if outcome.claim is not None:
        outcome.tolerance = claim_tolerance(outcome.claim)
    if outcome.proven is None:
        outcome.termination = "time_limit"
    return outcome


def _read_printed(task: Task, printed: Path) -> SolutionEnvelope:
    decision = json.loads(printed.read_text())
    found: SolutionEnvelope = task.problem.solution(instance=task.instance.name, **decision)
    return found
