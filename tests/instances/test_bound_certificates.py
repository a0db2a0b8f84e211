"""Certificates of bounds: what holds is accepted, whatever else is refused in one line."""

import json
from collections.abc import Callable
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_array

import moeopt
from moeopt.cli.main import run
from moeopt.core.errors import InputError
from moeopt.core.objective import entries
from moeopt.library.certificate import Box, Certificate, halves, packed_bound, verify
from moeopt.library.emit import certify
from moeopt.library.exact_model import _least, exact_model
from moeopt.library.limbs import product
from moeopt.problems.registry import PROBLEMS, get_problem
from tests.exporters.test_export_exact_model import random_instances
from tests.instances.test_benchmark_home import KEY, best, copied

assert copied  # a fixture

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_certificate_goes_above_the_optimum(problem: str, seed: int, root: Path) -> None:
    """Trees of all problems hold, reach the optimum of tiny instances, and prove no step more."""
    for number in range(3 * seed, 60):
        instance = random_instances(root, problem)(number)
        result = moeopt.solve(instance, "cp-sat")
        if result.status == "optimal":
            break
    model = exact_model(instance)
    assert (model.row_denominator > 0).all()
    assert result.objective is not None
    packing = get_problem(problem).packing(instance)
    upper = packing.pack(result.objective)
    found = certify(instance, upper + 1000, 60.0, 41)  # a bound is not held down by what is known
    assert entries(found.bound) <= entries(result.objective)
    verify(found, instance, model)
    more = found.model_copy(update={"bound": packing.unpack(upper + 1)})
    with pytest.raises(InputError, match=r"tree\[\d+\]: (proves|is not)"):
        verify(more, instance, model)


def test_small_trees_prove_optima(root: Path) -> None:
    """Of a cache and of a bitwidth instance: the model is no weaker than the problem."""
    for problem in ("cache", "bitwidth", "tri_domain"):
        instance = random_instances(root, problem)(0)
        result = moeopt.solve(instance, "cp-sat")
        assert result.objective is not None
        upper = get_problem(problem).packing(instance).pack(result.objective)
        assert certify(instance, upper, 60.0, 4001).bound == result.objective


@cache
def proof(root: Path) -> tuple[Any, Any, dict[str, Any]]:
    """Return an instance, its model, and a certificate with branches as a JSON object."""
    instance = moeopt.load(root / "instances" / "cache" / KEY)
    found = certify(instance, best(root / "instances" / "cache")["objective"], 60.0, 21)
    return instance, exact_model(instance), found.model_dump(mode="json")


def in_leaf(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], object]:
    """Return what changes the first leaf."""
    return lambda c: change(next(node for node in c["tree"] if "duals" in node))


def in_branch(**fields: Any) -> Callable[[dict[str, Any]], object]:
    """Return what changes the root's branch."""
    return lambda c: c["tree"][0].update(fields)


FALSE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "higher bound": (lambda c: c.update(bound=c["bound"] + 1), "proves 60755085000, not"),
    "other instance": (lambda c: c.update(instance="x"), 'instance: is "x", not'),
    "other problem": (lambda c: c.update(problem="joint"), 'problem: is "joint", not'),
    "two entries": (lambda c: c.update(bound=[1, 2]), "bound: must be "),
    "scale": (lambda c: c.update(scale=c["scale"] // 2), "proves"),
    "no multipliers": (in_leaf(lambda leaf: leaf.update(duals={})), "proves 0, not"),
    "signs": (
        in_leaf(lambda leaf: leaf.update(duals={k: -v for k, v in leaf["duals"].items()})),
        "proves nothing",
    ),
    "not empty": (in_leaf(lambda leaf: leaf.update(cost=0)), "is not shown to be empty"),
    "no row": (in_leaf(lambda leaf: leaf["duals"].update(nowhere=1)), '"nowhere" is no row'),
    "no column": (in_branch(column="nowhere"), '"nowhere" is no column of whole numbers'),
    "continuous": (in_branch(column="trace"), '"trace" is no column of whole numbers'),
    "a side left out": (lambda c: c["tree"].pop(), "tree: ends 1 nodes too early"),
    "too many": (lambda c: c["tree"].append(c["tree"][-1]), "stands after the tree's end"),
    "other branch": (in_branch(at_most=1), "proves"),
    "deep": (
        lambda c: c.update(tree=[c["tree"][0]] * 600),
        "tree[512]: more than 512 branches below each other",
    ),
}


@pytest.mark.parametrize("what", FALSE)
def test_what_does_not_hold_is_refused(what: str, root: Path) -> None:
    """Any change that matters; the unchanged one holds."""
    instance, model, data = proof(root)
    verify(Certificate.model_validate(data), instance, model)
    data = json.loads(json.dumps(data))
    change, reason = FALSE[what]
    change(data)
    with pytest.raises(InputError) as error:
        verify(Certificate.model_validate(data), instance, model)
    assert reason in str(error.value)


BAD_FILES = {
    "empty": ("", "not valid JSON"),
    "list": ("[]", "must hold one JSON object"),
    "other": ("{}", "format: must be moeopt-certificate"),
    "deep": ("[" * 100_000, "not usable: nested too deeply"),
    "version": ('"version": 2', "version: must be at most 1"),
    "scale": ('"scale": 0', "scale: must be at least 1"),
    "huge": ('"scale": 9' + "9" * 2000, "scale: must be a number of usable size"),
    "float": ('"bound": 1.5', "bound"),
    "no tree": ('"tree": []', "tree: "),
    "a number": ('"tree": [1]', "tree[0]"),
    "neither": ('"tree": [{}]', "tree[0]"),
    "unknown key": ('"tree": [{"duals": {}, "exec": 1}]', "tree[0]"),
    "large": ('"tree": [{"duals": {"CA_C2": 99999999999999999999}}]', "tree[0]"),
    "cost": ('"tree": [{"duals": {}, "cost": 2}]', "tree[0]"),
    "instance": ('"instance": "../../etc"', "has no cache instance called"),
    "problem": ('"problem": "os"', "os"),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_bad_certificates_are_one_line(
    what: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout, nothing written."""
    text, reason = BAD_FILES[what]
    if text.startswith('"'):
        good = {"format": "moeopt-certificate", "version": 1, "problem": "cache", "scale": 1}
        good |= {"instance": Path(KEY).name.removesuffix(".json.gz"), "bound": 1}
        good |= {"tree": [{"duals": {}}]}
        name = json.loads("{" + text.split(":")[0] + ": 0}").popitem()[0]
        rest = json.dumps({key: value for key, value in good.items() if key != name})
        text = f"{{{text}, {rest[1:]}"
    Path("c.json").write_text(text)
    before = (copied / "best_known.json").read_bytes()
    assert run(["library", "verify", "c.json", "--write"]) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert "c.json: " in line
    assert reason in line
    assert len(line) < 500
    assert captured.out == ""
    assert (copied / "best_known.json").read_bytes() == before


BAD_COMMANDS = {
    "no file": (["check", "none.json"], "none.json: cannot be read: No such file"),
    "a folder": (["check", "instances"], "cannot be read"),
    "no library": (["check", "good.json.gz", "--library", "none"], "is not an instance library"),
    "an instance": (["check", f"instances/cache/{KEY}"], "instance: is missing"),
    "no name": (["check", "some.sol"], "--instance FILE says whose answer it is"),
    "other instance": (["check", "some.sol", "--instance", "mine.json"], "is another instance"),
    "broken": (["check", "broken.json"], "broken.json: CA-C2: "),
    "unknown": (["check", "unknown.json"], "has no cache instance called 'unknown'"),
    "credit": (["check", "good.json.gz", "--by", "a|b"], "--by: must be a name of at most"),
    "no credit": (["verify", "x", "--by", ""], "--by: must be a name of at most"),
    "no certificate": (["verify", "good.json.gz"], "format: must be moeopt-certificate"),
    "nodes": (["certify", f"instances/cache/{KEY}", "--out", "x", "--nodes", "0"], "--nodes"),
    "out": (
        ["certify", f"instances/cache/{KEY}", "--out", "no/x", "--nodes", "1"],
        "no/x: cannot be written",
    ),
    "table": (["table", "none"], "PROBLEM: 'none' is unknown"),
    "table's library": (["table", "--library", "none"], "is not an instance library"),
}


@pytest.mark.parametrize("what", BAD_COMMANDS)
def test_bad_commands_are_one_line(
    what: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout."""
    solution: Any = moeopt.load_solution(copied / "solutions" / KEY)
    moeopt.save(solution, "good.json.gz")
    moeopt.save(solution.model_copy(update={"instance": "unknown"}), "unknown.json")
    instance: Any = moeopt.load(copied / KEY)
    broken = {"ways": tuple(instance.experts for _ in solution.ways)}
    moeopt.save(solution.model_copy(update=broken), "broken.json")
    moeopt.save(instance.model_copy(update={"slots": instance.slots - 1}), "mine.json")
    Path("some.sol").write_text("# x\ntrace 1\n")
    arguments, reason = BAD_COMMANDS[what]
    assert run(["library", *arguments]) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert reason in line
    assert captured.out == ""


def test_a_branch_leaves_out_nothing() -> None:
    """Every whole number of a column lies in just one half, other columns stay as they are."""
    box = Box(np.array([0, 0, None], dtype=object), np.array([5, 1, None], dtype=object))
    for column, values in ((0, range(6)), (2, range(-3, 9))):
        low, high = halves(box, column, 2)
        assert all((v <= low.upper[column]) != (high.lower[column] <= v) for v in values)
        assert (low.lower[column], high.upper[column]) == (box.lower[column], box.upper[column])
        assert (low.upper[1], high.lower[1]) == (1, 0)


def test_products_are_exact() -> None:
    """Of numbers far above 64 bits, of both signs."""
    random = np.random.default_rng(0)
    dense = random.integers(-(2**50), 2**50, (7, 5)) * random.integers(0, 2, (7, 5))
    weights = np.array([int(w) << 90 for w in random.integers(-(2**60), 2**60, 7)], dtype=object)
    expected = [
        sum(int(w) * int(a) for w, a in zip(weights, column, strict=True)) for column in dense.T
    ]
    assert product(csr_array(dense), weights).tolist() == expected


def test_denominators_are_found_again() -> None:
    """Fractions with a common denominator are; others are left out."""
    numbers = [Fraction(n, 1000) for n in (1, 333, 10**9 + 7, 123_456_789_012)]
    row = np.array([0, 0, 1, 1, 2])
    values = np.array([*map(float, numbers), 1 / 3])
    assert _least(row, values, 3, [1, 10, 1000, 10**6]).tolist() == [1000, 1000, 0]


def test_bounds_have_the_form_of_objectives(root: Path) -> None:
    """A pair where the objective is lexicographic, the second entry in its range."""
    instance = random_instances(root, "deferral")(0)
    radix = get_problem("deferral").packing(instance).radix
    assert radix is not None
    assert packed_bound((3, radix - 1), instance) == 4 * radix - 1
    for bound in (3, (3, radix), (3, -1), (1, 2, 3)):
        with pytest.raises(InputError, match="bound: "):
            packed_bound(bound, instance)
