"""Algebraic models, ``formulations/PROBLEM/PROBLEM.mod``, solved by GLPK and judged by the checker.

A model prints its own solution as JSON in the contract's form, so that it can be used with plain
``glpsol`` too, and no decoding stands between the mathematics and the checker.
"""

import json
import tempfile
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import moeopt
from tests.mathprog.data import data_section
from tests.rooms.core import Objective, claim_tolerance
from tests.rooms.problems import get_problem
from tests.rooms.solvers import Process, ProcessEndedError

MATHPROG = "mathprog"
"""The name of the algebraic models among the methods that a test compares."""

FORMULATIONS = Path(__file__).parents[2] / "formulations"

LIMIT_S = 60.0
"""Seconds that GLPK has by default; instances in tests take less than one."""


@dataclass(frozen=True)
class Answer:
    """GLPK's claim about an instance, with the fields of a `Result` that tests compare.

    Attributes
    ----------
    status
        "optimal" and "infeasible" are GLPK's word, in floats; "refuted": the checker rejects the
        solution, or computes another objective than GLPK; "unknown" at the limit or after an abort.
    objective
        The checker's, or without some rules the model's own.
    """

    status: Literal["optimal", "infeasible", "refuted", "unknown"]
    raw_status: str
    objective: Any = None
    solution: Any = None
    violations: list[tuple[str, str]] = field(default_factory=list)

    @property
    def proof(self) -> str | None:
        """One engine's word, where there is any."""
        return "single" if self.status in ("optimal", "infeasible") else None

    @property
    def bound(self) -> Objective | None:
        """The objective if it is called optimal; GLPK states no other bound."""
        return self.objective if self.status == "optimal" else None


def solve(instance: Any, method: str, **options: Any) -> Any:
    """Return `moeopt.solve`'s result, or for method `MATHPROG` that of `by_glpk`.

    GLPK knows the options `without` and `time_limit_s`. It ignores all others, as it never starts
    from a known solution and nothing confirms its answer.
    """
    if method != MATHPROG:
        return moeopt.solve(instance, method, **options)
    known = {name: options[name] for name in ("without", "time_limit_s") if name in options}
    return by_glpk(instance, **known)


def by_glpk(
    instance: Any, *, without: Collection[str] = (), time_limit_s: float = LIMIT_S
) -> Answer:
    """Return GLPK's answer to the algebraic model of an instance.

    Parameters
    ----------
    without
        Constraint IDs to leave out.
    time_limit_s
        Seconds; the process is ended soon after.

    Raises
    ------
    ValueError
        If GLPK does not accept the model with the instance's data.
    """
    model = FORMULATIONS / instance.problem / f"{instance.problem}.mod"
    with tempfile.TemporaryDirectory() as folder:
        data, printed = Path(folder) / "instance.dat", Path(folder) / "solution.json"
        data.write_text(data_section(model.read_text(), instance, printed))
        rows = [constraint.replace("-", "_") for constraint in sorted(without)]
        asked = {"model": str(model), "data": str(data), "without": rows, "seconds": time_limit_s}
        try:
            said = _process().ask_within(asked, time_limit_s).value
        except ProcessEndedError as error:  # GLPK's assertions abort on some large numbers
            return Answer("unknown", f"GLPK gave up: {error}")
        if said is None:
            return Answer("unknown", "ended at the limit")
        if said.get("rejected"):
            raise ValueError(f"GLPK rejects {model.name} with the data of {instance.name}")
        words = f"GLPK {said['code']} / {said['status']}"
        if said["objective"] is None:
            return Answer(said["proven"] or "unknown", words)
        return _judged(instance, said, json.loads(printed.read_text()), without, words)


_kept: list[Process] = []
"""The process, once there is one: starting it takes longer than most solves."""


def _process() -> Process:
    if not _kept or not _kept[0].alive:
        _kept[:] = [Process("tests.mathprog.glpk")]
    return _kept[0]


def _judged(
    instance: Any, said: dict[str, Any], decision: Any, without: Collection[str], words: str
) -> Answer:
    """Return GLPK's answer with what the checker says of its solution."""
    problem = get_problem(instance.problem)
    packing = problem.packing(instance)
    solution = problem.Solution()(instance=instance.name, **decision)
    broken = problem.violations(instance, solution)
    if forbidden := [rule for rule, _ in broken if rule not in without]:
        words += f"; the solution breaks {forbidden}"
        return Answer("refuted", words, None, solution, broken)
    actual, claim = problem.objective(instance, solution), said["objective"]
    claimed = packing.unpack(claim)
    if without:
        if claim < packing.pack(actual):
            broken = problem.violations(instance, solution, claimed)
        actual = claimed
    elif abs(claim - packing.pack(actual)) > claim_tolerance(claim):
        words += f"; the solution costs {actual}, not {claimed}"
        return Answer("refuted", words, actual, solution)
    return Answer(said["proven"] or "unknown", words, actual, solution, broken)
