"""The command line: what it prints, what it saves, and its exit codes."""

import gzip
import json
import platform
import signal
import subprocess
import sys
import tomllib
import warnings
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path

import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import TESTED_ORTOOLS, main, main_module, run
from tests.rooms.core import Formulation
from tests.rooms.problems import PROBLEMS, get_problem

Capture = pytest.CaptureFixture[str]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Return the file of an instance on which `trimoe` is not optimal."""
    instance = random_instance(4, experts=7)
    assert moeopt.solve(instance, "trimoe").objective != moeopt.solve(instance).objective
    moeopt.save(instance, tmp_path / "small.json")
    return tmp_path / "small.json"


def run_json(capsys: Capture, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    """Run a command with --json; return its exit code and the objects on stdout."""
    code = run([*arguments, "--json"])
    return code, [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_solve_prints_what_is_known(file: Path, capsys: Capture) -> None:
    """People read status, objective, bound and time."""
    assert run(["solve", str(file)]) == 0
    text = capsys.readouterr().out
    for word in ("optimal, completed", "objective", "bound", "gap 0.000 %", "building"):
        assert word in text


def test_solve_json_has_the_results_fields(file: Path, capsys: Capture) -> None:
    """One object per line with everything that the library's result has."""
    code, [data] = run_json(capsys, "solve", str(file), "--method", "milp", "--engine", "highs")
    result = moeopt.solve(moeopt.load(file), "milp")
    assert code == 0
    assert set(data) == {"schema_version", *result.to_dict()}
    assert (data["status"], data["objective"]) == ("optimal", [result.objective])
    assert data["solution"]["assignment"]  # type: ignore[index]


def test_a_bad_file_among_several(file: Path, tmp_path: Path, capsys: Capture) -> None:
    """Its line goes to stderr, the others are solved in order, the exit code is 2."""
    bad = tmp_path / "bad.json"
    bad.write_text('{"problem": "tri_domain"')
    assert run(["solve", str(file), str(bad), str(file), "--json"]) == 2
    captured = capsys.readouterr()
    assert len(captured.out.splitlines()) == 2
    [line] = captured.err.splitlines()
    assert line.startswith(f"moeopt: error: {bad}: not valid JSON at line 1")


def test_saved_solutions_pass_check(file: Path, tmp_path: Path, capsys: Capture) -> None:
    """--out FILE and --out DIR; what is saved can be checked."""
    saved = tmp_path / "s.json"
    assert run(["solve", str(file), "--out", str(saved)]) == 0
    assert run(["check", str(file), str(saved)]) == 0
    assert "valid, objective" in capsys.readouterr().out
    folder = tmp_path / "plans"
    other = tmp_path / "other.json.gz"
    moeopt.save(random_instance(3), other)
    assert run(["solve", str(file), str(other), "--out", str(folder)]) == 0
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["other.solution.json", "small.solution.json"]
    assert gzip.decompress(other.read_bytes())


def test_nothing_is_overwritten_by_a_namesake(file: Path, tmp_path: Path, capsys: Capture) -> None:
    """Two instance files of one name in different folders are refused before any is solved."""
    (tmp_path / "sub").mkdir()
    twin = tmp_path / "sub" / "small.json"
    twin.write_bytes(file.read_bytes())
    assert run(["solve", str(file), str(twin), "--out", str(tmp_path / "plans")]) == 2
    assert "several instance files have the same name" in capsys.readouterr().err


def test_check_names_the_violated_rule(file: Path, tmp_path: Path, capsys: Capture) -> None:
    """Exit 2, the constraint and the entry; as JSON too."""
    instance = moeopt.load(file)
    wrong = tmp_path / "wrong.json"
    domains = [None if e.dimm is None else "ndp" for e in instance.experts]  # type: ignore[attr-defined]
    decision = {"problem": "tri_domain", "instance": instance.name, "assignment": domains}
    wrong.write_text(json.dumps(decision))
    assert run(["check", str(file), str(wrong)]) == 2
    assert f"{wrong}: TD-C1: assignment[" in capsys.readouterr().err
    code, [verdict] = run_json(capsys, "check", str(file), str(wrong))
    assert (code, verdict["valid"], verdict["objective"]) == (2, False, None)


def test_no_solution_within_the_limit(file: Path, capsys: Capture) -> None:
    """Exit 4, and null for everything unknown."""
    code, [data] = run_json(capsys, "solve", str(file), "--time-limit", "1e-9")
    assert code == 4
    assert (data["status"], data["objective"], data["bound"]) == ("unknown", None, None)


@pytest.mark.usefixtures("template_problem")
def test_proven_infeasible(root: Path, tmp_path: Path, capsys: Capture) -> None:
    """Exit 3 from solve and explain, and the conflict in words."""
    tiny = root / "formulations/TEMPLATE/instances/many/many-deepseek-v2-lite-share0.15.json"
    tight = tmp_path / "tight.json"
    tight.write_text(tiny.read_text().replace('"min_kept": 12', '"min_kept": 64'))
    assert run(["solve", str(tight)]) == 3
    assert run(["explain", str(tight)]) == 3
    text = capsys.readouterr().out
    assert "these rules cannot hold together" in text
    assert "TM-C1  the kept experts fit" in text


def test_a_model_mismatch_is_a_bug(
    file: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """Exit 5, one line."""
    from tests.rooms.tri_domain import check

    monkeypatch.setattr(check, "violations", lambda *_: [("TD-C1", "nothing is right")])
    assert run(["solve", str(file)]) == 5
    assert "TD-C1: nothing is right" in capsys.readouterr().err


def test_explain_prices_every_rule(file: Path, capsys: Capture) -> None:
    """A line per rule with what it costs."""
    assert run(["explain", str(file)]) == 0
    text = capsys.readouterr().out
    assert "TD-C1 cannot be left out, as without it nothing has to run" in text
    rules = [f"TD-C{n}" for n in range(2, 8)]
    for rule in rules:
        assert f"{rule} costs" in text
    code, [data] = run_json(capsys, "explain", str(file))
    assert code == 0
    assert set(data["without"]) == set(rules)  # type: ignore[call-overload]


def test_gap_prints_tables_and_writes_csv(file: Path, tmp_path: Path, capsys: Capture) -> None:
    """Per instance and per family, and every number as CSV."""
    report = tmp_path / "report"
    assert run(["gap", str(tmp_path), "--methods", "greedy,trimoe", "--report", str(report)]) == 0
    text = capsys.readouterr().out
    words = ("excess over the optimum", "information", "trimoe", "threshold", "optimum")
    for word in words:
        assert word in text
    lines = (report / "gap.csv").read_text().splitlines()
    assert lines[0].startswith("problem,family,instance,method")
    assert len(lines) == 1 + 3


def test_list_shows_what_there_is(root: Path, capsys: Capture) -> None:
    """Every kind has entries."""
    for kind, entry in {
        "problems": "tri_domain\tExpert scheduling",
        "methods": "tri_domain\ttrimoe\theuristic",
        "assumptions": "tri_domain\ttie_order\tcpu\tgpu | ndp\tgreedy, trimoe",
        "machines": "trimoe",
        "models": "deepseek-v2-lite",
        "workloads": "trimoe-skew",
    }.items():
        assert run(["list", kind]) == 0
        assert entry in capsys.readouterr().out
    assert run(["list", "instances", "--path", str(root / "instances")]) == 0
    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert any("hard-window-intent-layer24-quantum1.json" in name for name, *_ in lines)
    proven = [(objective, bound) for _, objective, status, bound in lines if status == "optimal"]
    assert proven
    assert all(objective == bound for objective, bound in proven)


def test_generate_makes_the_same_bytes(tmp_path: Path, capsys: Capture) -> None:
    """To a file, to a folder, to stdout."""
    command = ["generate", "tri_domain", "--machine", "trimoe", "--model", "glm-4.5-air"]
    command += ["--workload", "trimoe-skew", "--batch", "64", "--seed", "5"]
    assert run([*command, "--out", str(tmp_path / "a.json")]) == 0
    assert run([*command, "--out", f"{tmp_path}/"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert run(command) == 0
    text = capsys.readouterr().out
    folder = tmp_path / f"{json.loads(text)['name']}.json"
    assert printed == [str(tmp_path / "a.json"), str(folder)]
    assert (tmp_path / "a.json").read_text() == text
    assert (tmp_path / f"{json.loads(text)['name']}.json").read_text() == text


SMALLER = {
    "cache": ["--tokens", "20"],
    "deferral": ["--batch", "4"],
    "joint": ["--steps", "2", "--kv-bits", "16,8"],
    "placement": ["--steps", "2"],
    "threads": ["--threads", "32"],
}


@pytest.mark.parametrize("problem", PROBLEMS)
def test_generate_makes_an_instance_of_each_problem(problem: str, tmp_path: Path) -> None:
    """From a machine, a model and a workload, by the command, as `moeopt.load` reads it."""
    command = ["generate", problem, "--model", "mixtral-8x7b"]
    command += ["--machine", "trimoe"] if get_problem(problem).machine_parts else []
    command += ["--workload", "olmoe-1b-7b"] if get_problem(problem).from_routing else []
    command += SMALLER.get(problem, [])
    assert run([*command, "--out", str(tmp_path / "made.json")]) == 0
    assert moeopt.load(tmp_path / "made.json").problem == problem


def test_single_experts_are_not_executed_on_several_gpus(capsys: Capture) -> None:
    """No plan of single experts is for several; as if it had one, would say nothing of it."""
    asked = ["--machine", "2xrtx3090+2xepyc-7002", "--model", "mixtral-8x7b"]
    assert run(["simulate", "--workload", "hdmoe-mixtral", *asked]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert "2xrtx3090+2xepyc-7002 has 2 GPUs; a plan of single experts runs on one" in line


def test_several_gpus_where_one_is_meant_are_told(capsys: Capture) -> None:
    """All other problems than `split` and copies know one GPU: which, one line says."""
    asked = ["generate", "deferral", "--machine", "2xrtx3090+2xepyc-7002"]
    asked += ["--model", "mixtral-8x7b"]
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert run(asked) == 0
    told = capsys.readouterr().err + "".join(str(one.message) for one in seen)
    assert told.count("the first of 2 GPUs alone counts") == 1
    assert "memory nodes" not in told  # both are read and compute


def test_a_strange_name_does_not_escape_the_folder(tmp_path: Path) -> None:
    """An instance called ../../x is saved inside the folder that was asked for."""
    command = ["generate", "tri_domain", "--machine", "trimoe", "--model", "glm-4.5-air"]
    command += ["--workload", "trimoe-skew", "--batch", "8", "--name", "../../x y"]
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert run([*command, "--out", str(inner)]) == 0
    assert [path.name for path in inner.iterdir()] == ["-..-x-y.json"]


def test_malformed_instances_never_give_a_traceback(tmp_path: Path) -> None:
    """The real process: exit 2 and a line each, for a file and for a directory."""
    (tmp_path / "nan.json").write_text('{"problem": "tri_domain", "dimms": NaN}')
    targets = [str(tmp_path / "nan.json"), str(tmp_path)]
    done = subprocess.run(
        [sys.executable, "-m", "moeopt", "solve", *targets], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 2
    for line, target in zip(lines, targets, strict=True):
        assert line.startswith(f"moeopt: error: {target}: ")


def test_a_path_with_a_line_break_is_still_one_line(tmp_path: Path, capsys: Capture) -> None:
    """A file's name cannot forge a second line of output."""
    assert run(["solve", str(tmp_path / "x\nmoeopt: fine.json")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_help_imports_nothing_heavy() -> None:
    """`moeopt --help` and `import moeopt` answer at once: no numpy, pydantic or solver."""
    heavy = {"numpy", "pydantic", "scipy", "ortools", "pulp", "pandas"}
    for code in (
        f"from {run.__module__} import run; run(['--help'])",
        "import moeopt; dir(moeopt)",
    ):
        script = f"{code}\nimport sys; print('loaded', *({heavy!r} & set(sys.modules)))"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.stdout.splitlines()[-1].split() == ["loaded"]


SMALL = (
    f"from {run.__module__} import run\n"
    + """
import sys

machine = ("--machine", "2xrtx3090+epyc-7002", "--model", "glm-4.5-air", "--bits", "Q4_K_M")
model = ("--machine", "trimoe", "--model", "deepseek-v2-lite", "--workload", "trimoe-skew")
file, made, solved = sys.argv[1:]
for command in (
    ("list", "methods"),
    ("generate", "tri_domain", *model, "--batch", "64", "--out", made),
    ("solve", made, "--method", "threshold", "--out", solved),
    ("check", made, solved),
    ("solve", file, "--method", "trimoe"),
    ("predict", *machine, "--context", "8k"),
):
    assert run(command) == 0, command
early = {"rich", "pandas"} & set(sys.modules)
assert run(("gap", made, "--methods", "trimoe,monde,threshold")) == 0
heavy = {"numba", "scipy.linalg", "scipy.optimize", "networkx", "matplotlib"}
loaded = {"ortools", *heavy} & set(sys.modules)
for command in (("explain", made), ("plan", *machine, "--context", "8k")):
    assert run(command) == 0, command
loaded |= heavy & set(sys.modules)
print("loaded", *loaded, *early)
"""
)


def test_small_work_imports_nothing_heavy(file: Path, tmp_path: Path) -> None:
    """No Numba, no solver where a command does not need them; rich and pandas only for tables."""
    arguments = [str(file), str(tmp_path / "made.json"), str(tmp_path / "solved.json")]
    done = subprocess.run(
        [sys.executable, "-c", SMALL, *arguments], capture_output=True, text=True, timeout=600
    )
    assert done.stdout.splitlines()[-1:] == ["loaded"], done.stderr


SERIES = (
    f"from {Formulation.__module__} import cp_model\n"
    + """
import sys
assert "pandas" not in sys.modules
if sys.argv[1] == "named first":
    cp_model.pd.DataFrame
import pandas
model = cp_model.CpModel()
found = model.new_int_var_series("x", pandas.Index(["a", "b"]), 1, 2)
model.add(sum(found) == 4)
solver = cp_model.CpSolver()
solver.solve(model)
print(type(found) is pandas.Series, *solver.values(found))
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("order", ["named first", "imported first"])
def test_pandas_is_there_for_who_uses_it(order: str) -> None:
    """CP-SAT's interface is imported without it, and has its series all the same."""
    done = subprocess.run([sys.executable, "-c", SERIES, order], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "2", "2"], done.stderr


def test_a_reader_that_leaves_early_is_no_error(root: Path) -> None:
    """`moeopt list instances | head -1` ends quietly."""
    command = f"{sys.executable} -m moeopt list instances | head -1"
    done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True)
    assert done.stderr == ""
    assert len(done.stdout.splitlines()) == 1


@pytest.mark.parametrize(
    ("command", "field", "value"),
    [
        ("machine set trimoe dram.capacity_gib=96GiB --out m.json", "devices", 96.0),
        ("machine set trimoe dram.capacity_gib=1TiB --out m.json", "devices", 1024.0),
        ("generate cache --machine rtx4090-7960x --model mixtral-8x7b --workload hdmoe-mixtral"
         " --tokens 2 --context 8k --reserved-gib 512MiB --out m.json", "provenance", "8192 0.5"),
    ],
)  # fmt: skip
def test_numbers_are_read_as_people_write_them(
    command: str, field: str, value: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tokens and memory with their units."""
    monkeypatch.chdir(tmp_path)
    assert run(command.split()) == 0
    found = json.loads((tmp_path / "m.json").read_text())[field]
    if field == "devices":
        assert found[1]["memory"]["capacity_gib"] == value
    else:
        options = found["options"]
        assert f"{options['context']} {options['reserved_gib']}" == value


def test_sigterm_ends_a_command_that_ctrl_c_cannot(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the background of a script Ctrl-C is ignored."""

    def endless(_: Sequence[str]) -> int:
        try:
            signal.raise_signal(signal.SIGTERM)
        except KeyboardInterrupt:
            return 130
        return 0

    monkeypatch.setattr(main_module, "drop_native_stdout", lambda: None)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    before = {of: signal.getsignal(of) for of in (signal.SIGINT, signal.SIGTERM)}
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with pytest.raises(SystemExit) as ended:
            main([], run=endless)
    finally:
        for of, handler in before.items():
            signal.signal(of, handler)
    assert ended.value.code == 128 + signal.SIGTERM


VERSION = (
    f"from {run.__module__} import run\n"
    + """
import sys
assert run(["--version"]) == 0
print({"ortools", "numpy", "scipy", "pulp"} & set(sys.modules))
"""
)


def test_versions_are_told_without_importing_what_has_them() -> None:
    """OR-tools with the releases that were tested."""
    done = subprocess.run([sys.executable, "-c", VERSION], capture_output=True, text=True)
    first, others, imported = done.stdout.splitlines()
    assert imported == "set()"
    python, ortools = platform.python_version(), version("ortools")
    assert first.startswith(f"moeopt {moeopt.__version__}, Python {python}, OR-tools {ortools} (")
    assert f"scipy {version('scipy')}" in others


@pytest.mark.parametrize(
    ("installed", "said"),
    [
        ("9.15.6755", "OR-tools 9.15.6755 (tested: 9.15)"),
        ("9.16.1", "OR-tools 9.16.1 (NOT TESTED with this one, only with 9.15)"),
    ],
)
def test_an_untested_version_is_told(
    installed: str, said: str, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    """What it proves may differ from release to release."""
    monkeypatch.setattr("importlib.metadata.version", lambda _: installed)
    assert run(["--version"]) == 0
    assert said in capsys.readouterr().out


def test_the_oldest_version_that_is_allowed_is_tested(root: Path) -> None:
    """What is declared is what tests have run on."""
    declared = tomllib.loads((root / "pyproject.toml").read_text())["project"]["dependencies"]
    assert f"ortools>={TESTED_ORTOOLS[0]},<10" in declared
