"""LP and MPS files of the exact model: other readers find the same optimum in them."""

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import pulp
import pytest
import swiglpk

import moeopt
from moeopt.exporters.targets.exact_model import CONSTANT
from moeopt.problems.registry import PROBLEMS, get_problem
from moeopt.solvers.engines import solve_highs as highs
from moeopt.solvers.engines import to_matrix

LIMIT_S = 600.0
SEEDS = range(4)


def random_instances(root: Path, problem: str) -> Callable[[int], Any]:
    """Return the function that the problem's own tests make random instances with."""
    folder = root / "tests" / "problems" / problem
    names = [path.stem for path in folder.glob("*random_*.py")]
    modules = [import_module(f"tests.problems.{problem}.{name}") for name in names]
    [made] = [m.random_instance for m in modules if hasattr(m, "random_instance")]
    function: Callable[[int], Any] = made
    return function


def by_pulp(path: Path) -> float | None:
    """Return the optimum of an MPS file as PuLP reads it and HiGHS solves it."""
    _, model = pulp.LpProblem.fromMPS(str(path))
    answer = highs(to_matrix(model), LIMIT_S, 0, 1)
    assert answer.proven is not None
    return answer.objective


def by_glpk(path: Path) -> float | None:
    """Return the optimum of an LP or MPS file as GLPK reads and solves it."""
    swiglpk.glp_term_out(swiglpk.GLP_OFF)
    problem = swiglpk.glp_create_prob()
    if path.suffix == ".mps":
        assert swiglpk.glp_read_mps(problem, swiglpk.GLP_MPS_FILE, None, str(path)) == 0
    else:
        assert swiglpk.glp_read_lp(problem, None, str(path)) == 0
    options = swiglpk.glp_iocp()
    swiglpk.glp_init_iocp(options)
    options.presolve, options.tm_lim = swiglpk.GLP_ON, int(1000 * LIMIT_S)
    code = swiglpk.glp_intopt(problem, options)
    status = swiglpk.glp_mip_status(problem)
    objective: float = swiglpk.glp_mip_obj_val(problem)
    swiglpk.glp_delete_prob(problem)
    if code in (swiglpk.GLP_ENOPFS, swiglpk.GLP_ENODFS) or status == swiglpk.GLP_NOFEAS:
        return None
    assert (code, status) == (0, swiglpk.GLP_OPT)
    return objective


def check_files(instance: Any, tmp_path: Path) -> None:
    """Compare the optima of both files, by two readers, with that of `moeopt solve`."""
    result = moeopt.solve(instance, "cp-sat", time_limit_s=LIMIT_S)
    assert result.status in ("optimal", "infeasible")
    packing = get_problem(instance.problem).packing(instance)
    paths = [moeopt.export(instance, to=to).save(tmp_path)[0] for to in ("mps", "lp")]
    unit = moeopt.export(instance, to="mps").notes["unit"]
    found = [by_pulp(paths[0]), by_glpk(paths[0]), by_glpk(paths[1])]
    if result.objective is None:
        assert found == [None, None, None]
        return
    optimum = packing.pack(result.objective)
    for value in found:
        assert value is not None
        assert value * unit == pytest.approx(optimum, rel=1e-6, abs=1e-5 * unit)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_other_readers_find_the_optimum(
    problem: str, seed: int, root: Path, tmp_path: Path
) -> None:
    """Every registered problem, tiny instances."""
    check_files(random_instances(root, problem)(seed), tmp_path)


def test_an_objectives_constant_is_kept(template_problem: str, root: Path, tmp_path: Path) -> None:
    """PuLP's writers drop it; the miniature problem counts down from the sum of all costs."""
    folder = root / "formulations" / template_problem / "instances"
    files = sorted(folder.glob("*/*.json"))
    constants = 0
    for file in files:
        instance = moeopt.load(file)
        check_files(instance, tmp_path)
        constants += CONSTANT in moeopt.export(instance, to="mps").text
    assert constants


def test_rows_are_named_after_constraints(root: Path) -> None:
    """Every constraint ID of the checker that has rows stands in the file."""
    made = random_instances(root, "tri_domain")(0)
    text = moeopt.export(made, to="lp").text
    for constraint in ("TD-C1", "TD-C3", "TD-C4", "TD-C5"):
        assert f"\n{constraint.replace('-', '_')}" in text


def test_the_same_model_gives_the_same_bytes(root: Path) -> None:
    """Both formats."""
    made = random_instances(root, "cache")(1)
    for to in ("lp", "mps"):
        assert moeopt.export(made, to=to).payload == moeopt.export(made, to=to).payload
