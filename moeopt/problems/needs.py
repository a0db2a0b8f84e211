"""Parts of a machine that a problem's generator needs, and the problems that fit a machine."""

from moeopt.core.errors import InputError
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.sim.machines.machine import Machine

UNITS = {"gpu": "GPU", "cpu": "CPU that computes experts", "ndp": "NDP units beside its DIMMs"}


def lacking(problem: str, machine: Machine) -> list[str]:
    """Return the parts that a problem needs and a machine has not."""
    return [part for part in get_problem(problem).machine_parts if not machine.having(part)]


def check_needs(problem: str, machine: Machine) -> None:
    """Refuse a machine that lacks a part that a problem's instances are about.

    Raises
    ------
    InputError
        It names the part, the problem, and the problems that fit this machine.
    """
    missing = lacking(problem, machine)
    if not missing:
        return
    what = " and no ".join(UNITS[part] for part in missing)
    fit = ", ".join(other for other in PROBLEMS if not lacking(other, machine))
    reason = f"machine {machine.name} has no {what}, which this problem schedules"
    reason += f"; problems that fit this machine: {fit}"
    raise InputError(reason, where=f"generate {problem}", field=missing[0])
