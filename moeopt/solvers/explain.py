"""Which rules make an instance infeasible, and what each rule costs where it is not."""

from dataclasses import dataclass

from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.objective import Objective
from moeopt.problems.registry import get_problem
from moeopt.solvers import arguments
from moeopt.solvers.limits import Deadline
from moeopt.solvers.result import Status
from moeopt.solvers.run import solve


@dataclass(frozen=True)
class Explanation:
    """Why an instance has the optimum it has, or none.

    Attributes
    ----------
    status
        Of the instance with all its rules.
    objective
        The best objective known with all rules.
    conflict
        If infeasible: constraint IDs that cannot hold together, none of them superfluous if
        `minimal` is True.
    minimal
        False if the time limit left some rule of `conflict` undecided.
    without
        If feasible: constraint ID -> the proven optimum without that rule, None if not proven.
    """

    status: Status
    objective: Objective | None
    conflict: tuple[str, ...]
    minimal: bool
    without: dict[str, Objective | None]


def explain(
    instance: InstanceEnvelope,
    method: str = "cp-sat",
    *,
    time_limit_s: float = 60.0,
    seed: int = 0,
    workers: int = 1,
) -> Explanation:
    """Explain an instance by solving it again with rules left out.

    For an infeasible instance rules are dropped one after the other, and a rule whose absence
    leaves it infeasible stays dropped; what remains is a conflict that would vanish with any one
    rule less. For a feasible one each rule is dropped alone: the fall of the optimum is what the
    rule costs.

    Parameters
    ----------
    instance, seed, workers
        As in `moeopt.solve`.
    method
        An exact method that can leave constraints out: cp-sat, milp or mathprog.
    time_limit_s
        For all solves together.

    Returns
    -------
    Explanation
        `conflict` if the instance is infeasible, else `without`: the optimum without each rule.

    Raises
    ------
    InputError
        As in `moeopt.solve`.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> instance = moeopt.load(f"{folder}/window-law-layer4-batch256.json")
    >>> explanation = moeopt.explain(instance)
    >>> explanation.objective, explanation.without["TD-C4"]
    (3965000, 2505000)
    """
    instance = arguments.an_instance(instance)
    deadline = Deadline(arguments.seconds(time_limit_s))
    rules = get_problem(instance.problem).constraint_ids

    def relaxed(without: set[str], share: int) -> tuple[Status, Objective | None]:
        limit = max(deadline.remaining_s / share, 1e-9)  # a limit must be positive
        result = solve(
            instance,
            method,
            time_limit_s=limit,
            seed=seed,
            workers=workers,
            without=without,
        )
        return result.status, result.objective

    status, objective = relaxed(set(), 1)
    if status != "infeasible":
        optima: dict[str, Objective | None] = {}
        for number, rule in enumerate(rules):
            found, value = relaxed({rule}, len(rules) - number)
            optima[rule] = value if found == "optimal" else None
        return Explanation(status, objective, (), True, optima)
    dropped: set[str] = set()
    minimal = True
    for number, rule in enumerate(rules):
        found, _ = relaxed(dropped | {rule}, len(rules) - number)
        if found == "infeasible":
            dropped.add(rule)
        minimal = minimal and found != "unknown"
    conflict = tuple(rule for rule in rules if rule not in dropped)
    return Explanation(status, None, conflict, minimal, {})
