"""tri_domain as a user would write it by hand, from the statement in its checker (TD-C1 to TD-C5).

The exact models: one boolean per expert and domain, a makespan, one row per device with all its
terms, in nanoseconds; no bounds, hints or scaling, and the solvers' default parameters, except that
no gap is tolerated. All contenders get one core. `trimoe` is the paper's heuristic, word by word.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pulp
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp

from benchmarks.harness.contenders import Answer
from benchmarks.harness.measurement import WORKERS
from benchmarks.rooms.tri_domain import DOMAINS, Domain, Expert, Instance, Solution

Term = tuple[int, Domain, int]
"""Position of an expert, domain, and how long the expert keeps the device busy if it runs there."""


def cpsat(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with CP-SAT; its makespan variable needs a range, which is the sum of all costs."""
    return cpsat_built(instance)(time_limit_s)


def cpsat_built(instance: Instance) -> Callable[[float], Answer]:
    """Return what solves the finished model within a time limit."""
    rows = device_rows(instance)
    model = cp_model.CpModel()
    runs = [
        {domain: model.new_bool_var(f"{domain}_{i}") for domain in DOMAINS}
        for i in range(len(instance.experts))
    ]
    horizon = sum(cost for row in rows for _, _, cost in row)
    makespan = model.new_int_var(0, horizon, "makespan")
    for expert, of in zip(instance.experts, runs, strict=True):
        model.add_exactly_one(of.values())
        if expert.dimm is None:
            model.add(of["ndp"] == 0)
    for row in rows:
        model.add(sum(cost * runs[i][domain] for i, domain, cost in row) <= makespan)
    model.minimize(makespan)

    def solve(time_limit_s: float) -> Answer:
        solver = cp_model.CpSolver()
        solver.parameters.num_workers = WORKERS
        solver.parameters.max_time_in_seconds = time_limit_s
        status = solver.solve(model)
        if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
            return Answer(None, None, solver.best_objective_bound, proven=False)
        return Answer(
            _solution(instance, lambda i, domain: solver.value(runs[i][domain])),
            solver.objective_value,
            solver.best_objective_bound,
            proven=status == cp_model.OPTIMAL,
        )

    return solve


def highs(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with HiGHS, as arrays: three columns per expert, the makespan last."""
    return highs_built(instance)(time_limit_s)


def highs_built(instance: Instance) -> Callable[[float], Answer]:
    """Return what solves the finished arrays within a time limit."""
    experts = len(instance.experts)
    columns = 3 * experts + 1
    devices = device_rows(instance)
    busy = np.zeros((len(devices), columns))
    for row, terms in enumerate(devices):
        for i, domain, cost in terms:
            busy[row, _column(i, domain)] = cost
    busy[:, -1] = -1
    one_domain = np.hstack([np.kron(np.eye(experts), np.ones(3)), np.zeros((experts, 1))])
    upper = np.ones(columns)
    upper[[_column(i, "ndp") for i, e in enumerate(instance.experts) if e.dimm is None]] = 0
    upper[-1] = np.inf
    makespan = np.eye(columns)[-1]
    model: dict[str, Any] = {
        "integrality": 1 - makespan,
        "bounds": Bounds(0, upper),
        "constraints": [LinearConstraint(busy, ub=0), LinearConstraint(one_domain, 1, 1)],
    }

    def solve(time_limit_s: float) -> Answer:
        found = milp(makespan, **model, options={"time_limit": time_limit_s, "mip_rel_gap": 0})
        if found.x is None:
            return Answer(None, None, found.mip_dual_bound, proven=False)
        return Answer(
            _solution(instance, lambda i, domain: found.x[_column(i, domain)]),
            found.fun,
            found.mip_dual_bound,
            proven=found.status == 0,
        )

    return solve


def cbc(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with CBC through PuLP; at the limit only `sol_status` tells that nothing is proven."""
    model = pulp.LpProblem("tri_domain", pulp.LpMinimize)
    runs = [
        {domain: model.add_variable(f"{domain}_{i}", cat="Binary") for domain in DOMAINS}
        for i in range(len(instance.experts))
    ]
    makespan = model.add_variable("makespan", lowBound=0)
    model += makespan
    for expert, of in zip(instance.experts, runs, strict=True):
        model += pulp.lpSum(of.values()) == 1
        if expert.dimm is None:
            model += of["ndp"] == 0
    for row in device_rows(instance):
        model += pulp.lpSum(cost * runs[i][domain] for i, domain, cost in row) <= makespan
    model.solve(pulp.PULP_CBC_CMD(msg=False, timeLimit=time_limit_s))
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return Answer(None, None, None, proven=False)
    proven = model.sol_status == pulp.LpSolutionOptimal
    objective = pulp.value(model.objective)
    return Answer(
        _solution(instance, lambda i, domain: runs[i][domain].value() or 0.0),
        objective,
        objective if proven else None,
        proven,
    )


def trimoe(instance: Instance) -> Solution:
    """Schedule as TriMoE 4.2 words it, ties as in `moeopt.problems.tri_domain.heuristics.trimoe`.

    Every move that is tried recomputes all device loads.
    """
    experts = instance.experts
    runs = [_cheapest(expert) for expert in experts]
    while True:
        loads = _loads_ns(instance, runs)
        bottleneck = loads.index(max(loads))
        on_it = [i for i, e in enumerate(experts) if _device(e, runs[i]) == bottleneck]
        if not on_it:
            break
        costliest = min(on_it, key=lambda i: (-_cost_ns(experts[i], runs[i]), experts[i].expert))
        moves = []
        for domain in _able(experts[costliest]):
            if domain != runs[costliest]:
                moved = [*runs[:costliest], domain, *runs[costliest + 1 :]]
                after, receiver = _loads_ns(instance, moved), _device(experts[costliest], domain)
                growth = after[receiver] - loads[receiver]
                moves.append((max(after), growth, DOMAINS.index(domain), moved))
        makespan, _, _, moved = min(moves)
        if makespan >= max(loads):
            break
        runs = moved
    return Solution(instance=instance.name, assignment=tuple(runs))


def device_rows(instance: Instance) -> list[list[Term]]:
    """Return what may keep each device busy: GPU, CPU, then the DIMMs (TD-C3 to TD-C5)."""
    experts = list(enumerate(instance.experts))
    gpu: list[Term] = [(i, "gpu", e.gpu_ns) for i, e in experts]
    cpu: list[Term] = [(i, "cpu", e.cpu_ns) for i, e in experts]
    dimms = [
        [term for i, e in experts if e.dimm in (dimm, None) for term in _dimm_terms(i, e)]
        for dimm in range(instance.dimms)
    ]
    return [gpu, cpu, *dimms]


def _dimm_terms(i: int, expert: Expert) -> list[Term]:
    terms: list[Term] = [(i, "gpu", expert.gpu_dram_ns), (i, "cpu", expert.cpu_dram_ns)]
    if expert.ndp_ns is not None:
        terms.append((i, "ndp", expert.ndp_ns))
    return terms


def _column(i: int, domain: Domain) -> int:
    return 3 * i + DOMAINS.index(domain)


def _solution(instance: Instance, value: Callable[[int, Domain], float]) -> Solution:
    """Return the solution in which each expert takes the domain of the largest value."""
    assignment = [
        max(DOMAINS, key=lambda domain: value(i, domain)) for i in range(len(instance.experts))
    ]
    return Solution(instance=instance.name, assignment=tuple(assignment))


def _able(expert: Expert) -> tuple[Domain, ...]:
    return ("gpu", "cpu") if expert.dimm is None else DOMAINS


def _cheapest(expert: Expert) -> Domain:
    """Return the domain of the cheapest path; of several the CPU, then the GPU."""
    return min(_able(expert), key=lambda domain: (_cost_ns(expert, domain), domain))


def _cost_ns(expert: Expert, domain: Domain) -> int:
    cost: int = getattr(expert, f"{domain}_ns")
    return cost


def _device(expert: Expert, domain: Domain) -> int:
    """Return the device that runs an expert: 0 is the GPU, 1 the CPU, 2 the first DIMM."""
    if expert.dimm is None or domain != "ndp":
        return DOMAINS.index(domain)
    return 2 + expert.dimm


def _loads_ns(instance: Instance, runs: list[Domain]) -> list[int]:
    loads = [0] * (2 + instance.dimms)
    for expert, domain in zip(instance.experts, runs, strict=True):
        loads[_device(expert, domain)] += _cost_ns(expert, domain)
        if domain != "ndp":
            read = expert.gpu_dram_ns if domain == "gpu" else expert.cpu_dram_ns
            for dimm in range(instance.dimms) if expert.dimm is None else (expert.dimm,):
                loads[2 + dimm] += read
    return loads
