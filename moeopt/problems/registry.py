"""The list of problems."""

from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.problem import Problem
from moeopt.core.wording import meant, shown, suggested
from moeopt.problems import (
    balance,
    bitwidth,
    cache,
    deferral,
    joint,
    layout,
    placement,
    relayout,
    replication,
    split,
    threads,
    tri_domain,
)

AnyProblem = Problem[Any, Any]
"""A problem that is known by its name alone."""

PROBLEMS: dict[str, AnyProblem] = {
    "tri_domain": tri_domain.PROBLEM,
    "relayout": relayout.PROBLEM,
    "layout": layout.PROBLEM,
    "deferral": deferral.PROBLEM,
    "balance": balance.PROBLEM,
    "cache": cache.PROBLEM,
    "bitwidth": bitwidth.PROBLEM,
    "placement": placement.PROBLEM,
    "joint": joint.PROBLEM,
    "replication": replication.PROBLEM,
    "split": split.PROBLEM,
    "threads": threads.PROBLEM,
}
"""Problem name -> problem. A new problem is one line here, and its import."""


def get_problem(name: object) -> AnyProblem:
    """Return the problem called `name`.

    Raises
    ------
    InputError
        If there is no such problem; the message lists those that exist.
    """
    if not isinstance(name, str) or name not in PROBLEMS:
        hint = meant(name, PROBLEMS) or ";"
        known = ", ".join(PROBLEMS)
        raise InputError(
            f"{shown(name)} is unknown{hint} known problems: {known}",
            field="problem",
            suggestion=suggested(name, PROBLEMS),
        )
    return PROBLEMS[name]
