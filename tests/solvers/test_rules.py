"""Users' heuristics: accepted in every form, and never on trust."""

import json
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.problems.deferral.random_schedules import random_instance as random_deferral
from tests.problems.layout.layout_random_instances import random_instance as random_layout
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused
from tests.rooms.cli import run
from tests.rooms.layout import Solution as LayoutSolution
from tests.rooms.solvers import Rule, load_rule, rules
from tests.rooms.tri_domain import Instance, Solution, heuristics

INSTANCE = random_instance(4, experts=7)
ON_GPU = ["gpu"] * 7
OF_LAYOUT = LayoutSolution(instance=INSTANCE.name, resident=(), dimm=(), assignment=())


@pytest.fixture(autouse=True)
def _as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what a test registers and adds to the path."""
    monkeypatch.setattr(rules, "_registered", {})
    monkeypatch.setattr(sys, "path", [*sys.path])


def on_gpu(instance: Instance) -> list[str]:
    """Run everything on the GPU."""
    return ["gpu"] * len(instance.experts)


class OnGpu:
    """A rule as an object."""

    def __call__(self, instance: Instance) -> list[str]:
        return on_gpu(instance)


@pytest.mark.parametrize(
    "rule",
    [
        on_gpu,
        OnGpu(),
        partial(on_gpu),
        lambda i: Solution(instance=i.name, assignment=ON_GPU),
        lambda i: tuple(ON_GPU),
        lambda i: np.array(ON_GPU),
        lambda i: {"assignment": np.array(ON_GPU, dtype=object)},
        lambda i: {"problem": "tri_domain", "instance": i.name, "assignment": ON_GPU},
    ],
)
def test_what_a_rule_may_return(rule: Callable[[Any], Any]) -> None:
    """A solution, or what one is made of."""
    result = moeopt.solve(INSTANCE, rule)
    assert (result.status, result.bound, result.raw_status) == ("feasible", None, "HEURISTIC")
    assert result.solution == Solution(instance=INSTANCE.name, assignment=ON_GPU)
    assert result.objective == moeopt.check(INSTANCE, result.solution).objective


def test_a_decision_of_several_fields() -> None:
    """A mapping of NumPy arrays: booleans, integers, and nested lists of them."""
    instance = random_layout(1, experts=4)
    best = moeopt.solve(instance, "cp-sat").solution

    def same(_: object) -> dict[str, object]:
        data = best.model_dump(exclude={"problem", "instance"})
        return {
            "resident": np.array(data["resident"]),
            "dimm": [None if d is None else np.int32(d) for d in data["dimm"]],
            "assignment": [np.array(row, dtype=object) for row in data["assignment"]],
        }

    assert moeopt.solve(instance, same).solution == best


def raises(instance: Instance) -> None:
    """Fail."""
    raise ValueError("the first line\nand the second")


def exits(instance: Instance) -> None:
    """Leave the interpreter, or try to."""
    sys.exit(3)


@pytest.mark.parametrize(
    ("rule", "reason"),
    [
        (lambda i: None, "returned None, not a Solution or its assignment"),
        (lambda i: 5, "returned an int, not a Solution or its assignment"),
        (lambda i: "gpu", "returned a str, not a Solution or its assignment"),
        (lambda i: ["gpu", "tpu"], "returned no valid solution: assignment[1]: "),
        (
            lambda i: {"assigment": ON_GPU},
            "returned no valid solution: assigment: is not a known key",
        ),
        (
            lambda i: Solution(instance="another", assignment=ON_GPU),
            "returned a solution of instance 'another', not of ",
        ),
        (
            lambda i: {"instance": "another", "assignment": ON_GPU},
            "returned a solution of instance",
        ),
        (lambda i: OF_LAYOUT, "returned a solution of 'layout', not"),
        (lambda i: [None] * 7, "its solution violates TD-C1: "),
        (lambda i: ["gpu"], "its solution violates TD-C1: "),
        (raises, "raised ValueError: the first line and the second (test_rules.py, line "),
        (exits, "raised SystemExit: 3 (test_rules.py, line "),
    ],
)
def test_what_goes_wrong_is_one_line(rule: Callable[[Any], Any], reason: str) -> None:
    """The error begins with the method's name; what the rule raised is its cause."""
    with pytest.raises(moeopt.HeuristicError) as caught:
        moeopt.solve(INSTANCE, rule)
    error = caught.value
    assert error.reason.startswith(reason)
    assert str(error) == f"{error.heuristic}: {error.reason}"
    assert "\n" not in str(error)
    kind = reason.removeprefix("raised ").partition(":")[0]
    if reason.startswith("raised"):
        assert type(error.__cause__).__name__ == kind


def test_an_own_heuristic_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its exception is the cause, too."""
    monkeypatch.setattr(heuristics, "greedy", lambda instance: 1 // 0)
    with pytest.raises(moeopt.HeuristicError, match="greedy: raised ZeroDivisionError") as caught:
        moeopt.solve(INSTANCE, "greedy")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_the_cause_in_another_process_is_its_traceback(tmp_path: Path) -> None:
    """The exception itself stays where it was raised."""
    (tmp_path / "mine.py").write_text("def mine(instance):\n    return 1 // 0\n")
    with pytest.raises(moeopt.HeuristicError, match=r"mine\.py:mine: raised Zero") as caught:
        moeopt.solve(INSTANCE, load_rule(f"{tmp_path / 'mine.py'}:mine"))
    assert "return 1 // 0" in str(caught.value.__cause__)


def test_the_checkers_instance_is_not_the_rules() -> None:
    """A rule that changes what it is given changes neither the objective nor the instance."""

    def cheat(instance: Instance) -> list[str]:
        instance.columns.gpu_ns[:] = 0
        instance.__dict__["experts"] = instance.experts[:1]
        return ON_GPU

    INSTANCE.columns  # noqa: B018  # the arrays are made when first asked for
    honest = moeopt.solve(INSTANCE, on_gpu).objective
    assert moeopt.solve(INSTANCE, cheat).objective == honest
    assert len(INSTANCE.experts) == 7
    assert INSTANCE.columns.gpu_ns.all()


def test_no_limit_ends_a_function_of_the_caller() -> None:
    """It runs in the caller's thread: its solution counts, and the result says that it was late."""
    result = moeopt.solve(INSTANCE, lambda i: (time.sleep(0.3), ON_GPU)[1], time_limit_s=0.1)
    assert (result.status, result.termination) == ("feasible", "time_limit")
    assert result.solution is not None


def test_a_bound_is_a_claim() -> None:
    """It counts like one engine's word: it stands in the result, and proves nothing."""
    optimum = moeopt.solve(INSTANCE, "brute-force")
    assert optimum.solution is not None
    closed = moeopt.solve(INSTANCE, lambda i: (optimum.solution, np.int64(optimum.objective)))
    assert (closed.status, closed.proof) == ("feasible", "single")
    assert closed.bound == closed.objective == optimum.objective
    assert closed.said == "feasible: closed by one engine, not confirmed"
    [claim] = closed.evidence.claims
    assert (claim.kind, claim.value, claim.stands) == ("bound", optimum.objective, True)
    for pair in ((ON_GPU, 3), (tuple(ON_GPU), 3), ({"assignment": ON_GPU}, 3)):
        assert moeopt.solve(INSTANCE, lambda i, pair=pair: pair).bound == 3
    without = moeopt.solve(INSTANCE, lambda i: (ON_GPU, None))
    assert (without.status, without.bound, without.proof) == ("feasible", None, None)


def test_a_bound_above_the_solution_is_a_contradiction() -> None:
    """It is named, and the solution stays."""
    cost = moeopt.solve(INSTANCE, on_gpu).objective
    assert isinstance(cost, int)
    result = moeopt.solve(INSTANCE, lambda i: (ON_GPU, cost + 1))
    assert (result.status, result.objective, result.bound) == ("feasible", cost, None)
    [claim] = result.evidence.refuted
    assert (claim.value, claim.reason) == (cost + 1, f"there is a solution of {cost}")
    assert "REFUTED: " in result.raw_status


@pytest.mark.parametrize("bound", [1.5, (1, 2), True, "3"])
def test_a_bound_is_an_integer(bound: object) -> None:
    """Or one for each entry of the objective."""
    with pytest.raises(moeopt.HeuristicError, match=r", not an integer$"):
        moeopt.solve(INSTANCE, lambda i: ({"assignment": ON_GPU}, bound))


def test_a_bound_of_a_lexicographic_objective() -> None:
    """A tuple; where the second entry is out of range, the bound is as good as the nearest."""
    instance = random_deferral(3)
    best = moeopt.solve(instance, "dp")
    assert isinstance(best.objective, tuple)
    assert best.solution is not None
    first, second = best.objective
    for bound in ((first, second), (first, 0), (first, -1), (first - 1, 10**30)):
        result = moeopt.solve(instance, lambda i, bound=bound: (best.solution, bound))
        assert (result.objective, result.proof) == (best.objective, "single")
        assert isinstance(result.bound, tuple)
        assert result.bound <= best.objective
        assert bound[1] not in (second, 0) or result.bound == bound
    refuted = moeopt.solve(instance, lambda i: (best.solution, (first, second + 1)))
    assert (refuted.bound, len(refuted.evidence.refuted)) == (None, 1)
    with pytest.raises(moeopt.HeuristicError, match=r"not 2 integers$"):
        moeopt.solve(instance, lambda i: (best.solution, 3))


def test_a_bound_from_a_process_of_its_own(tmp_path: Path) -> None:
    """The same."""
    source = 'def bounded(instance): return ["gpu"] * len(instance.experts), 7'
    (tmp_path / "mine.py").write_text(source)
    result = moeopt.solve(INSTANCE, load_rule(f"{tmp_path / 'mine.py'}:bounded"))
    assert (result.status, result.bound, result.proof) == ("feasible", 7, "single")


def test_registered_rules_are_methods() -> None:
    """By name, in the list, and the name stands for the latest function."""
    decorated = moeopt.heuristic("tri_domain", "mine")(lambda i: None)
    moeopt.heuristic("tri_domain", "mine")(on_gpu)
    assert decorated(INSTANCE) is None
    assert "mine" in moeopt.methods("tri_domain")
    assert "mine" not in moeopt.methods("layout")
    for method in ("mine", on_gpu):
        result = moeopt.solve(INSTANCE, method)
        assert (result.method, result.status) == ("mine", "feasible")
    with pytest.raises(moeopt.InputError, match="'mine' is for tri_domain, not for layout"):
        moeopt.solve(random_layout(1), on_gpu)


@pytest.mark.parametrize(
    ("problem", "name", "message"),
    [
        ("tri-domain", "mine", 'problem: "tri-domain" is unknown'),
        ("tri_domain", "greedy", "name: 'greedy' is a method of tri_domain already"),
        ("tri_domain", "auto", "name: 'auto' is a method of tri_domain already"),
        ("tri_domain", "threshold", "is a method of tri_domain already"),
        ("tri_domain", "two\nlines", "name: must be a name for a method"),
        ("tri_domain", 5, "name: must be a name for a method, not 5"),
    ],
)
def test_names_that_cannot_be_registered(problem: str, name: Any, message: str) -> None:
    """One line says why."""
    assert message in refused(moeopt.heuristic, problem, name)


RULES = """
import neighbour

def mine(instance):
    return neighbour.everything(instance, "gpu")

def none(instance):
    print("thinking")

def fails(instance):
    return 1 / 0

nothing = 5
"""


@pytest.fixture
def rule_file(tmp_path: Path) -> Path:
    """Return a file of rules that imports the file beside it."""
    neighbour = "def everything(instance, where):\n    return [where] * len(instance.experts)\n"
    (tmp_path / "neighbour.py").write_text(neighbour)
    path = tmp_path / "my_rules.py"
    path.write_text(RULES)
    return path


@pytest.fixture
def instance_file(tmp_path: Path) -> Path:
    """Return a file with the instance."""
    path = tmp_path / "instance.json"
    moeopt.save(INSTANCE, path)
    return path


def test_a_rule_from_a_file(rule_file: Path) -> None:
    """Its name is short, its spec can be loaded anywhere, its hash is the file's."""
    rule = load_rule(f"{rule_file}:mine")
    assert (rule.name, rule.problem, rule.source_path) == ("my_rules.py:mine", None, rule_file)
    assert rule.spec is not None
    assert load_rule(rule.spec).source_sha256 == rule.source_sha256
    result = moeopt.solve(INSTANCE, rule)
    assert (result.method, result.objective) == (
        rule.name,
        moeopt.solve(INSTANCE, on_gpu).objective,
    )


def test_an_edited_file_is_another_rule(rule_file: Path) -> None:
    """At once, also where only one character differs and the clock stands still."""
    before = load_rule(f"{rule_file}:mine")
    stat = rule_file.stat()
    rule_file.write_text(RULES.replace('"gpu"', '"cpu"'))
    import os

    os.utime(rule_file, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    after = load_rule(f"{rule_file}:mine")
    assert after.source_sha256 != before.source_sha256
    assert moeopt.solve(INSTANCE, after).solution.assignment == ("cpu",) * 7


def test_a_registered_rule_in_a_file_keeps_its_name(tmp_path: Path) -> None:
    """And its problem."""
    path = tmp_path / "named.py"
    path.write_text(
        "import moeopt\n@moeopt.heuristic('tri_domain', 'mine')\ndef f(i):\n    return None\n"
    )
    rule = load_rule(f"{path}:f")
    assert (rule.name, rule.problem) == ("mine", "tri_domain")


def test_a_rule_from_a_module() -> None:
    """By its dotted name; the hash is of the file that defines it."""
    rule = load_rule(f"{__name__}:on_gpu")
    assert (rule.name, rule.source_path) == (f"{__name__}:on_gpu", Path(__file__).resolve())
    assert moeopt.solve(INSTANCE, rule).status == "feasible"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("my_rules.py", "rule: must be FILE.py:function or package.module:function"),
        ("my_rules.py:not a name", "rule: must be FILE.py:function"),
        ("absent.py:mine", "there is no file"),
        ("my_rules.py:absent", "there is no 'absent' in"),
        ("my_rules.py:nothing", "'nothing' is an int, not a function"),
        (
            "broken.py:mine",
            "cannot be loaded: ZeroDivisionError: division by zero (broken.py, line 2)",
        ),
        ("grammar.py:mine", "cannot be loaded: SyntaxError"),
        ("leaves.py:mine", "cannot be loaded: SystemExit: 1"),
        ("no.such.module:mine", "cannot be loaded: ModuleNotFoundError: No module named 'no'"),
    ],
)
def test_a_rule_that_cannot_be_loaded(spec: str, message: str, rule_file: Path) -> None:
    """One line that begins with what was asked for."""
    (rule_file.parent / "broken.py").write_text("x = 0\ny = 1 / x\n")
    (rule_file.parent / "grammar.py").write_text("def (:\n")
    (rule_file.parent / "leaves.py").write_text("import sys\nsys.exit(1)\n")
    full = f"{rule_file.parent}/{spec}" if ".py" in spec else spec
    assert message in refused(load_rule, full)


def test_the_command_takes_a_rule(
    rule_file: Path, instance_file: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Solved: 0. A failed one: one line and 2, with --json the result; its prints go to stderr."""
    assert run(["solve", str(instance_file), "--method", f"{rule_file}:mine"]) == 0
    assert "my_rules.py:mine" in capfd.readouterr().out
    assert run(["solve", str(instance_file), "--method", f"{rule_file}:fails"]) == 2
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"moeopt: error: {instance_file}: my_rules.py:fails: "
        "raised ZeroDivisionError: division by zero (my_rules.py, line 11)\n"
    )
    assert run(["solve", str(instance_file), "--json", "--method", f"{rule_file}:none"]) == 2
    captured = capfd.readouterr()
    assert json.loads(captured.out)["status"] == "failed"
    assert captured.err.startswith("thinking\n")
    assert run(["solve", str(instance_file), "--method", f"{rule_file}:absent"]) == 2
    assert capfd.readouterr().err.count("\n") == 1


class Installed:
    """Stands for a package with entry points."""

    name = "a-package"


def plugin(name: str, value: str) -> metadata.EntryPoint:
    """Return an entry point of an installed package."""
    entry = metadata.EntryPoint(name, value, rules.GROUP)
    vars(entry).update(dist=Installed())
    return entry


def test_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Listed without being imported; a broken one is one line, and nobody else's trouble."""
    found = [
        plugin("tri_domain:theirs", f"{__name__}:on_gpu"),
        plugin("tri_domain.dotted", f"{__name__}:on_gpu"),
        plugin("tri_domain:broken", "no.such.module:rule"),
        plugin("tri_domain:number", f"{__name__}:ON_GPU"),
        plugin("tri_domain:greedy", "no.such.module:rule"),
        plugin("nobodys", "no.such.module:rule"),
    ]
    monkeypatch.setattr(rules, "entries", lambda _: {entry.name: entry for entry in found})
    listed = moeopt.methods("tri_domain")
    assert [m for m in listed if m in ("theirs", "dotted", "broken", "number")] == [
        *("theirs", "dotted", "broken", "number"),
    ]
    assert listed.count("greedy") == 1
    assert "nobodys" not in listed
    for name in ("theirs", "dotted"):
        result = moeopt.solve(INSTANCE, name)
        assert (result.method, result.status) == (name, "feasible")
    assert moeopt.solve(INSTANCE, "greedy").status == "feasible"
    with pytest.raises(moeopt.InputError, match=r"^plugin 'tri_domain:broken' of a-package cannot"):
        moeopt.solve(INSTANCE, "broken")
    with pytest.raises(moeopt.InputError, match=r"'tri_domain:number' of a-package is a list, not"):
        moeopt.solve(INSTANCE, "number")


def test_a_rule_says_where_it_is_from() -> None:
    """The hash of the file for functions, objects and partials; none where there is no source."""
    made = {rules.rule_of(rule).source_sha256 for rule in (on_gpu, OnGpu(), partial(on_gpu))}
    assert len(made) == 1
    assert None not in made
    assert rules.rule_of(len) == Rule("builtins:len", None, len)


HOSTILE = """
import os, signal
def ends(instance): os._exit(0)
def crashes(instance): os.kill(os.getpid(), signal.SIGSEGV)
def takes_all(instance): return bytes(2**40)
def stalls(instance):
    while True: pass
def prints(instance):
    os.write(1, b"not a result")
    return ["gpu"] * len(instance.experts)
def renames(instance):
    object.__setattr__(instance, "name", "another")
    return ["gpu"] * len(instance.experts)
"""


@pytest.mark.parametrize(
    ("name", "status", "reason"),
    [
        ("ends", "failed", "crashed: it ended its process with exit code 0"),
        ("crashes", "failed", "crashed: its process was ended by SIGSEGV"),
        ("takes_all", "failed", "raised MemoryError (hostile.py, line 5)"),
        ("stalls", "unknown", "ENDED AT THE LIMIT"),
        ("prints", "feasible", "HEURISTIC"),
        ("renames", "feasible", "HEURISTIC"),
    ],
)
def test_what_a_rule_does_in_its_process_stays_there(
    name: str, status: str, reason: str, tmp_path: Path
) -> None:
    """Its end, a crash, memory, endless loops, output, a changed name."""
    (tmp_path / "hostile.py").write_text(HOSTILE)
    rule = load_rule(f"{tmp_path / 'hostile.py'}:{name}")
    limit = 0.5 if name == "stalls" else 60
    if status == "failed":
        with pytest.raises(moeopt.HeuristicError) as caught:
            moeopt.solve(INSTANCE, rule, time_limit_s=limit)
        assert caught.value.reason == reason
        return
    result = moeopt.solve(INSTANCE, rule, time_limit_s=limit)
    assert (result.status, result.raw_status) == (status, reason)


def test_a_heuristic_of_other_instances_says_which_knows_these() -> None:
    """EPLB's global policy knows no nodes; on one node it decides."""
    for nodes, said in ((1, "HEURISTIC"), (2, "eplb knows nodes 1 alone, and here it is 2; eplb-")):
        instance = moeopt.replication.Instance.from_arrays(
            loads=[[8, 4, 2, 2]], devices=2, slots=3, nodes=nodes, groups=2, max_copies=2
        )
        found = moeopt.solve(instance, "eplb")
        assert (found.solution is None) == (nodes > 1)
        assert said in found.raw_status
        assert moeopt.solve(instance, "eplb-hierarchical").solution is not None
