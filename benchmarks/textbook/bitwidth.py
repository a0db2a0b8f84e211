"""bitwidth as a user would write it by hand, from the statement in its checker (BW-C1 to BW-C3).

One boolean per expert and width, in units of loss, no bounds, hints or scaling, and the solvers'
default parameters, except that no gap is tolerated. Granularity and counts are left out: the case
has none. All contenders get one core.
"""

import numpy as np
import pulp
from ortools.sat.python import cp_model
from scipy.optimize import Bounds, LinearConstraint, milp
from scipy.sparse import csr_array, vstack

from benchmarks.harness.contenders import Answer
from benchmarks.harness.measurement import WORKERS
from benchmarks.rooms.bitwidth import Instance, Solution


def cpsat(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with CP-SAT."""
    model = cp_model.CpModel()
    bits, experts = list(instance.bits), _experts(instance)
    has = [[model.new_bool_var(f"{i}_{b}") for b in bits] for i in range(len(experts))]
    for of in has:
        model.add_exactly_one(of)
    for rows, budget in _budgets(instance):
        variables = [variable for i in rows for variable in has[i]]
        used = cp_model.LinearExpr.weighted_sum(variables, bits * len(rows))
        model.add(used <= budget)
    variables = [variable for of in has for variable in of]
    losses = [loss for expert in experts for loss in expert]
    model.minimize(cp_model.LinearExpr.weighted_sum(variables, losses))
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = WORKERS
    solver.parameters.max_time_in_seconds = time_limit_s
    status = solver.solve(model)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        return Answer(None, None, solver.best_objective_bound, proven=False)
    return Answer(
        _solution(instance, [[solver.value(variable) for variable in of] for of in has]),
        solver.objective_value,
        solver.best_objective_bound,
        proven=status == cp_model.OPTIMAL,
    )


def highs(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with HiGHS, as arrays."""
    losses = np.array(_experts(instance), dtype=float)
    experts, widths = losses.shape
    columns = experts * widths
    one = csr_array(
        (np.ones(columns), np.arange(columns), np.arange(0, columns + 1, widths)),
        shape=(experts, columns),
    )
    parts = _budgets(instance)
    used = np.zeros((len(parts), experts))
    for row, (members, _) in enumerate(parts):
        used[row, members] = 1
    bits = csr_array(np.kron(used, np.array(instance.bits)))
    limits = np.array([budget for _, budget in parts])
    found = milp(
        losses.ravel(),
        integrality=np.ones(columns),
        bounds=Bounds(0, 1),
        constraints=LinearConstraint(
            vstack([one, bits], format="csr"),
            np.concatenate([np.ones(experts), np.full(len(parts), -np.inf)]),
            np.concatenate([np.ones(experts), limits]),
        ),
        options={"time_limit": time_limit_s, "mip_rel_gap": 0},
    )
    if found.x is None:
        return Answer(None, None, found.mip_dual_bound, proven=False)
    values = np.rint(found.x.reshape(experts, widths)).astype(int).tolist()
    solution = _solution(instance, values)
    return Answer(solution, found.fun, found.mip_dual_bound, proven=found.status == 0)


def pulp_cbc(instance: Instance, time_limit_s: float) -> Answer:
    """Solve with PuLP and the CBC that comes with it."""
    model = pulp.LpProblem("bitwidth", pulp.LpMinimize)
    bits, experts = instance.bits, _experts(instance)
    has = [
        [model.add_variable(f"has_{i}_{b}", cat="Binary") for b in bits]
        for i in range(len(experts))
    ]
    model.setObjective(
        pulp.lpSum(
            loss * variable
            for of, losses in zip(has, experts, strict=True)
            for variable, loss in zip(of, losses, strict=True)
        )
    )
    for of in has:
        model += pulp.lpSum(of) == 1
    for rows, budget in _budgets(instance):
        used = pulp.lpSum(b * v for i in rows for b, v in zip(bits, has[i], strict=True))
        model += used <= budget
    cbc = pulp.COIN_CMD(
        path=pulp.PULP_CBC_CMD.pulp_cbc_path, msg=False, timeLimit=time_limit_s, gapRel=0
    )
    model.solve(cbc)  # one thread by default
    if model.sol_status not in (pulp.LpSolutionOptimal, pulp.LpSolutionIntegerFeasible):
        return Answer(None, None, None, proven=False)
    values = [[round(variable.value() or 0) for variable in of] for of in has]
    proven = model.sol_status == pulp.LpSolutionOptimal
    return Answer(_solution(instance, values), pulp.value(model.objective), None, proven)


def _experts(instance: Instance) -> list[tuple[int, ...]]:
    return [expert.loss for layer in instance.layers for expert in layer.experts]


def _budgets(instance: Instance) -> list[tuple[list[int], int]]:
    """Return the experts, numbered through all layers, and the limit of every budget."""
    ends = np.cumsum([len(layer.experts) for layer in instance.layers]).tolist()
    if instance.model_budget_bits is not None:
        return [(list(range(ends[-1])), instance.model_budget_bits)]
    starts = [0, *ends[:-1]]
    limits = instance.layer_budgets
    return [
        (list(range(a, b)), limit or 0) for a, b, limit in zip(starts, ends, limits, strict=True)
    ]


def _solution(instance: Instance, values: list[list[int]]) -> Solution:
    flat = iter([next(b for b, x in zip(instance.bits, of, strict=True) if x) for of in values])
    bits = tuple(tuple(next(flat) for _ in layer.experts) for layer in instance.layers)
    return Solution(instance=instance.name, bits=bits)
