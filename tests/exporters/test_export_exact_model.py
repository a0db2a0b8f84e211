"""LP and MPS files of the exact model: other readers find the same optimum in them."""

import json
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pulp
import pytest
import swiglpk
from scipy.sparse import csr_array

import moeopt
from moeopt import InputError
from tests.refusals import refused_command
from tests.rooms.cli import run
from tests.rooms.core import Program
from tests.rooms.exporters import CONSTANT, read_answer, read_sol
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.solvers import answer
from tests.shares import first

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
    said = answer("highs", program_of(model), LIMIT_S)
    assert said["status"] in ("optimal", "infeasible")
    return said.get("objective")


def program_of(model: Any) -> Program:
    """Return PuLP's problem as arrays."""
    variables = model.variables()
    column = {variable.name: number for number, variable in enumerate(variables)}
    rows = model.constraints()
    matrix = np.zeros((len(rows), len(variables)))
    for number, row in enumerate(rows):
        for variable, coefficient in row.items():
            matrix[number, column[variable.name]] = coefficient
    sides = np.array([-row.constant for row in rows], float)
    senses = np.array([row.sense for row in rows])
    cost = np.zeros(len(variables))
    for variable, coefficient in model.objective.items():
        cost[column[variable.name]] = coefficient
    return Program(
        cost=cost,
        lower=np.array([-np.inf if v.lowBound is None else v.lowBound for v in variables], float),
        upper=np.array([np.inf if v.upBound is None else v.upBound for v in variables], float),
        integer=np.array([v.cat == pulp.LpInteger for v in variables], dtype=np.int64),
        rows=csr_array(matrix),
        row_lower=np.where(senses == pulp.LpConstraintLE, -np.inf, sides),
        row_upper=np.where(senses == pulp.LpConstraintGE, np.inf, sides),
        constant=float(model.objective.constant),
    )


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


@pytest.mark.parametrize("seed", first(2, [*SEEDS]))
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


Values = Mapping[str, float]


def highs_form(values: Values, objective: float) -> str:
    """Return what `write_solution_style` 0 of HiGHS gives, rows and dual values included."""
    rows = "".join(f"{name} {value!r}\n" for name, value in values.items())
    head = f"Model status\nOptimal\n\n# Primal solution values\nFeasible\nObjective {objective!r}\n"
    tail = "# Rows 1\nC1 1\n\n# Dual solution values\nNone\n\n# Basis\nHiGHS v1\nNone\n"
    return f"{head}# Columns {len(values)}\n{rows}{tail}"


def scip_form(values: Values, objective: float) -> str:
    """Return what SCIP's `write solution` gives: nonzero values, with their costs."""
    rows = "".join(
        f"{name:<30}{value!r:>20} \t(obj:0)\n" for name, value in values.items() if value
    )
    return f"solution status: optimal solution found\nobjective value:      {objective!r}\n{rows}"


def cbc_form(values: Values, objective: float) -> str:
    """Return what CBC's `solution` gives: nonzero values by index, and reduced costs."""
    rows = "".join(
        f"{'**' if row == 3 else '  '}{row:>5} {name:<20}{value!r:>20}{0:>20}\n"
        for row, (name, value) in enumerate(values.items())
        if value
    )
    return f"Optimal - objective value {objective:.8f}\n{rows}"


def gurobi_form(values: Values, objective: float) -> str:
    """Return what Gurobi writes: all values, after comments."""
    rows = "".join(f"{name} {value!r}\n" for name, value in values.items())
    return f"# Solution for model x\n# Objective value = {objective!r}\n{rows}"


FORMS: dict[str, Callable[[Values, float], str]] = {
    "HiGHS": highs_form, "SCIP": scip_form, "CBC": cbc_form, "Gurobi": gurobi_form,
}  # fmt: skip


def solved(instance: Any) -> tuple[Values, float]:
    """Return the values of the model's variables at the optimum, and the model's objective."""
    built = get_problem(instance.problem).Model("milp")(instance)
    built.post()
    said = answer("highs", built.model.in_floats(), 60.0)
    return dict(zip(built.model.names, said["values"], strict=True)), said["objective"]


def feasible_instance(root: Path, problem: str) -> tuple[Any, Any]:
    """Return a random instance that has a solution, and its least objective."""
    for given in map(random_instances(root, problem), range(20)):
        if (result := moeopt.solve(given, "cp-sat")).status == "optimal":
            return given, result.objective
    raise AssertionError


@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_form_leads_back(
    problem: str, root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The checker finds the optimum in it, which is what the file claims; it can be kept."""
    given, best = feasible_instance(root, problem)
    moeopt.save(given, tmp_path / "i.json")
    values, objective = solved(given)
    for name, form in FORMS.items():
        path = tmp_path / f"{name}.sol"
        path.write_text(form(values, objective))
        answer = read_answer(given, path)
        assert answer.writer == name
        verdict = moeopt.check(given, answer.solution)
        assert verdict.objective == best, name
        assert not answer.differs(given, verdict.objective)
        kept = tmp_path / f"{name}.json"
        assert run(["check", str(tmp_path / "i.json"), str(path), "--out", str(kept)]) == 0
        captured = capsys.readouterr()
        assert captured.out.startswith(f"{path}: valid, objective ")
        assert captured.err == ""
        assert moeopt.check(given, moeopt.load_solution(kept)).objective == best


@pytest.fixture
def cache(root: Path, tmp_path: Path) -> Path:
    """Return the folder with an instance of cache and its optimum in Gurobi's form."""
    given, _ = feasible_instance(root, "cache")
    moeopt.save(given, tmp_path / "i.json")
    (tmp_path / "a.sol").write_text(gurobi_form(*solved(given)))
    return tmp_path


def test_what_a_solver_claims_is_not_believed(
    cache: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Another objective than the checker's is said; a broken constraint is exit code 2."""
    file, instance = cache / "a.sol", str(cache / "i.json")
    text = file.read_text()
    file.write_text(text.replace("# Objective value = ", "# Objective value = 9"))
    assert run(["check", instance, str(file), "--json"]) == 0
    captured = capsys.readouterr()
    assert "Gurobi says 9" in captured.err
    assert json.loads(captured.out)["valid"] is True
    given: Any = moeopt.load(instance)
    names = [f"gets_{layer}_{given.experts}" for layer in range(given.layers)]
    greedy = "".join(
        f"{line.split()[0]} {int(line.split()[0] in names)}\n"
        for line in text.splitlines()
        if line.startswith("gets_")
    )
    file.write_text(f"# x\n{greedy}trace 0\n")
    assert run(["check", instance, str(file)]) == 2
    assert "CA-C2" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not a solution file of HiGHS, SCIP, CBC or Gurobi"),
        ("hello\n", "is not a solution file of HiGHS, SCIP, CBC or Gurobi; it begins"),
        ("Columns\n    Index\n", "line 1: HiGHS wrote it for people"),
        ("Model status\nInfeasible\n\n# Primal solution values\nNone\n", "holds no solution"),
        ("Model status\nOptimal\n", "holds no solution"),
        ("Model status\nOptimal\n# Columns 9\ngets_0_0 1\n", "ends 8 values before the last"),
        ("Model status\nOptimal\n# Columns 1\nx one\n", 'line 4: must be a number, not "one"'),
        ("solution status: infeasible\nno solution available\n", "line 2: holds no solution"),
        ("Infeasible - objective value 0.00\n", "line 1: holds no solution"),
        (
            "Stopped on time (no integer solution - continuous used) - objective value 3\n",
            "line 1: holds no solution",
        ),
        ("Optimal - objective value nan\n", "line 1: must be a number"),
        ("Optimal - objective value 3\n0 x 1\n", "line 2: must be index, name, value and cost"),
        ("# Gurobi\ngets_0_0 1\ngets_0_0 1\n", 'line 3: "gets_0_0" stands twice'),
        ("# Gurobi\nx 1e999\n", "line 2: must be a number"),
        ("# Gurobi\nx inf\n", "line 2: must be a number"),
        # 40 s, were the pattern of a number asked first
        ("# Objective value = 1" + "0" * 60_000 + "\n", "line 1: must be a number"),
        ("# Gurobi\nx 1 2\n", "line 2: must be a name and a value"),
        ("# Gurobi\nx\n", "line 2: must be a name and a value"),
        ("# Gurobi\nunknown 1\n", '"unknown" is no variable of'),
        ("Model status\nOptimal\n\nObjective \n# Columns 0\n", 'must be a number, not ""'),
        ("# Gurobi\ntrace 1\n", 'has no value of "gets_0_0"'),
        ("objective value: 1\ngets_0_0 0.5\n", "gets_0_0: must be a whole number, not 0.5"),
        ("objective value: 1\n" + "x" * 60_000 + " 1\n", "is no variable of"),
        ("objective value: 1\n" + "x" * 100_000 + " 1\n", "line 2: longer than 65536 bytes"),
    ],
)
def test_bad_files_are_one_line(
    cache: Path, text: str, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout."""
    (cache / "a.sol").write_text(text)
    line = refused_command(capsys, ["check", str(cache / "i.json"), str(cache / "a.sol")])
    assert reason in line
    assert len(line) < 500


def test_bytes_that_are_no_text_are_refused(cache: Path) -> None:
    """As any file of text; --out is for answers only."""
    (cache / "a.sol").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InputError, match=r"not UTF-8|cannot be read|is no"):
        read_sol(cache / "a.sol")
    solution = cache / "s.json"
    solution.write_text("{}")
    assert run(["check", str(cache / "i.json"), str(solution), "--out", "x.json"]) == 2
