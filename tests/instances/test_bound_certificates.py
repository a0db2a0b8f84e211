"""Certificates of bounds: what holds is accepted, whatever else is refused in one line."""

import csv
import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from ortools.sat.python import cp_model

import moeopt
from instances.tools.commands import run as run_tool
from moeopt import InputError
from tests.exporters.test_export_exact_model import random_instances
from tests.instances.test_benchmark_home import KEY, best, copied
from tests.problems.instances_to_break import MAKERS
from tests.refusals import refused_command
from tests.rooms.certificates import (
    LEMMAS,
    Box,
    Model,
    Packing,
    RefusedError,
    Steps,
    certify,
    check_parts,
    neutral_model,
    sides,
    verify,
)
from tests.rooms.certificates import certificate as checker
from tests.rooms.core import entries
from tests.rooms.problems import PROBLEMS, get_problem
from tests.shares import shares

assert copied  # a fixture

SEEDS = [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 12))]
MOST_LINES = 400

MOST_CANDIDATES = 20_000
"""Of an instance that brute force is asked for."""


def test_the_checker_is_one_short_file(root: Path) -> None:
    """It runs in an interpreter that can import nothing but the standard library."""
    file = root / "moeopt" / "certificates" / "certificate.py"
    assert len(file.read_text().splitlines()) <= MOST_LINES
    done = subprocess.run(
        [sys.executable, "-I", "-S", file], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", PROBLEMS)
def test_no_certificate_goes_above_the_optimum(problem: str, seed: int, root: Path) -> None:
    """The models cut off no optimum: bounds are not held down by what is known, and stay below."""
    for number in range(3 * seed, 60):
        instance = random_instances(root, problem)(number)
        result = moeopt.solve(instance, "cp-sat")
        if result.status == "optimal":
            break
    assert result.objective is not None
    packing = get_problem(problem).packing(instance)
    upper = packing.pack(result.objective)
    found = certify(instance, upper + 1000, 60.0, 41)
    assert entries(packing.unpack(found["bound"])) <= entries(result.objective)
    model = Model(neutral_model(instance).data)
    assert verify(model, found) == found["bound"]
    with pytest.raises(RefusedError, match=r"tree\[|parts: prove"):
        verify(model, found | {"bound": upper + 1})


def test_small_trees_prove_optima(root: Path) -> None:
    """The models are no weaker than the problems."""
    for problem in ("cache", "bitwidth", "tri_domain", "balance"):
        instance = random_instances(root, problem)(0)
        result = moeopt.solve(instance, "cp-sat")
        assert result.objective is not None
        upper = get_problem(problem).packing(instance).pack(result.objective)
        assert certify(instance, upper, 60.0, 4001)["bound"] == upper


def test_layers_of_their_own_get_trees_of_their_own(root: Path) -> None:
    """What no row joins is proven in parts, whatever is claimed; what a budget joins is not."""
    for instance in map(random_instances(root, "bitwidth"), range(20)):
        result = moeopt.solve(instance, "cp-sat")
        if result.objective is None or len(instance.layers) < 2:
            continue
        upper = get_problem("bitwidth").packing(instance).pack(result.objective)
        found = certify(instance, upper + 1000, 60.0, 4001)
        apart = instance.model_budget_bits is None and instance.granularity != "model"
        assert ("parts" in found) == apart
        assert found["bound"] == upper or not apart


def small_model(seed: int) -> tuple[Model, list[dict[int, int]], Callable[[dict[int, int]], int]]:
    """Return a random model in integers, all its points, and what each costs."""
    draw = random.Random(seed)
    sizes = [draw.randint(1, 3) for _ in range(4)]
    rows = []
    for _ in range(3):
        used = draw.sample(range(4), draw.randint(1, 4))
        terms = [[j, draw.choice([-3, -2, -1, 1, 2, 3])] for j in used]
        rows.append([terms, draw.choice([">=", "<="]), draw.randint(-3, 4), "X-C1"])
    objective = [[j, draw.randint(-4, 4)] for j in range(4)]
    data = {
        "format": "moeopt-model", "version": 2, "problem": "x", "instance": str(seed),
        "lemmas": [], "vars": [[0, size, True] for size in sizes], "rows": rows,
        "objective": objective, "constant": draw.randint(-3, 3), "denominator": 1, "grid": 1,
    }  # fmt: skip
    points = []
    for values in product(*(range(size + 1) for size in sizes)):
        point = dict(enumerate(values))
        sums = [sum(c * point[j] for j, c in terms) for terms, *_ in rows]
        if all(
            (s >= side) if sense == ">=" else (s <= side)
            for s, (_, sense, side, _) in zip(sums, rows, strict=True)
        ):
            points.append(point)
    return Model(data), points, lambda p: data["constant"] + sum(c * p[j] for j, c in objective)


@pytest.mark.parametrize("seeds", shares(10, 40))
def test_tightening_loses_no_point(seeds: range) -> None:
    """Whatever branches were taken, every point within them stays within the bounds."""
    for seed in seeds:
        model, points, cost = small_model(seed)
        cutoff = model.cutoff(5)
        box = Box(model, cutoff, Steps(), 1000)
        box.tighten(range(len(box.rows)))
        draw = random.Random(seed)
        kept = [p for p in points if cost(p) < 5]
        for _ in range(4):
            inside = [
                p for p in kept if all(box.lower[j] <= v <= box.upper[j] for j, v in p.items())
            ]
            assert inside == kept
            assert not (box.empty and kept)
            column, value = draw.randrange(4), draw.randint(0, 2)
            mark = len(box.trail)
            before = (list(box.lower), list(box.upper), box.empty)
            box.branch([(column, value + 1, None)])
            box.restore(mark, before[2])
            assert (box.lower, box.upper, box.empty) == before
            box.branch([(column, None, value)])
            kept = [p for p in kept if p[column] <= value]


@pytest.mark.parametrize("seeds", shares(10, 40))
def test_nothing_false_is_accepted(seeds: range) -> None:
    """Random trees and multipliers: what is accepted is true of all points."""
    for seed in seeds:
        model, points, cost = small_model(seed)
        least = min(map(cost, points), default=10**6)
        low = least if points else 0
        draw, accepted = random.Random(seed), 0
        for _ in range(300):
            leaves = [
                [draw.randint(0, 3), [[r, s * draw.randint(0, 3)] for r, s in rows(model)]]
                for _ in range(2)
            ]
            trees: list[list[Any]] = [[0], [[draw.randrange(4), draw.randint(0, 2)], 0, 1], [-1]]
            data = {
                "model_sha256": model.sha256, "bound": draw.randint(low - 20, low + 6),
                "leaves": leaves, "tree": draw.choice(trees), "propagation": draw.choice([0, 50]),
            }  # fmt: skip
            try:
                assert verify(model, data) <= least
                accepted += 1
            except RefusedError:
                pass
        assert accepted


def test_a_branch_on_a_row_needs_one_that_lets_one_be_1() -> None:
    """What of a row is 1 may be asked where at most one is, whatever else stands in the row."""
    flags = [[0, 1, True], [0, 1, True], [0, 3, True], [0, 1, False], [0, 2, True]]
    rows = [
        ([[0, 1], [1, 1], [2, 1]], "=", 1), ([[0, 1], [1, 1], [2, 1]], "<=", 2),
        ([[0, 1], [1, 1], [2, 1]], ">=", 1), ([[0, 1], [1, 1], [4, -1]], "<=", 0),
        ([[0, 1], [1, 1], [3, -1]], "=", 0), ([[0, 1], [1, 1], [4, 2]], "<=", 1),
    ]  # fmt: skip
    data = {
        "format": "moeopt-model", "version": 2, "problem": "x", "instance": "y", "lemmas": [],
        "vars": flags, "rows": [[*row, "a"] for row in rows], "objective": [[2, 1]],
        "constant": 0, "denominator": 1, "grid": 1, "below": 7,
    }  # fmt: skip
    model = Model(data)
    assert sides(model, Steps(), [0, 1, 1], "")[1] == [(0, None, 0)]
    assert [one[0] for one in sides(model, Steps(), [0, 1, 1], "")[0]] == [1, 2]
    assert sides(model, Steps(), [4, 2, 1], "")[1] == [(0, None, 0), (1, None, 0)]
    assert sides(model, Steps(), [5, 1, 1], "")[0] == [(1, None, 0)]
    for node in ([1, 1, 1], [2, 1, 1], [3, 1, 1], [0, -1, 1], [9, 1, 1], [0], [0, 1, 1, 1], []):
        with pytest.raises(RefusedError):
            sides(model, Steps(), node, "")
    proof = {"model_sha256": model.sha256, "bound": 8, "leaves": [], "tree": [-1]}
    with pytest.raises(RefusedError, match="is for what costs less than 7"):
        verify(model, proof)


def tight(instance: Any, optimum: int, draw: random.Random) -> Iterator[dict[str, Any]]:
    """Yield forms of an instance for little more than its optimum."""
    for lemma in LEMMAS.get(instance.problem, ()):
        for below in (optimum + 1, optimum + draw.randint(2, 3 + optimum // 3)):
            form: dict[str, Any] = {"lemma": lemma, "below": below}
            if lemma == "packing weights":
                if len(instance.scenarios) > 1:
                    continue
                size = len(Packing(instance, below - 1).lengths)
                form["weights"] = [[draw.randint(0, 9) for _ in range(size)] for _ in range(4)]
            if instance.problem == "relayout":
                lengths = {instance.dram_localized_ns, *(one.ndp_ns for one in instance.experts)}
                some = [[draw.choice([*lengths, 7]) or 1 for _ in range(3)] for _ in range(9)]
                form["places"] = [[reads, *of] for reads, of in enumerate(some)]
            yield form


def least(model: Model) -> Fraction | None:
    """Return the least that the objective is, by CP-SAT; None if nothing is.

    What is no whole number is taken in steps of one over the objective's denominator, which what
    stands for a solution is.
    """
    program, step = cp_model.CpModel(), model.denominator
    sums = (sum(abs(factor) for _, factor in row) for row in [model.objective, *model.terms])
    cap = 2**61 // (1 + step * max(sums))
    ends = [
        (low or 0, min(10**13, cap) if high is None else high)
        for low, high in zip(model.lower, model.upper, strict=True)
    ]
    x = [
        step * program.new_int_var(*pair, "")
        if whole
        else program.new_int_var(pair[0] * step, pair[1], "")
        for pair, whole in zip(ends, model.whole, strict=True)
    ]
    for terms, low, high in zip(model.terms, model.least, model.most, strict=True):
        total = sum(factor * x[j] for j, factor in terms) if terms else program.new_constant(0)
        if low is not None:
            program.add(total >= low * step)
        if high is not None:
            program.add(total <= high * step)
    cost = sum(factor * x[j] for j, factor in model.objective)
    program.minimize(cost)
    if "overflow" in program.validate():
        raise OverflowError
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    status = solver.solve(program)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    if status == cp_model.INFEASIBLE:
        return None
    return (Fraction(solver.value(cost), step) + model.constant) / model.denominator


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("problem", LEMMAS)
def test_models_by_lemma_lose_no_optimum(problem: str, seed: int, root: Path) -> None:
    """Of random instances, every second made odd: brute force finds nothing below the model."""
    draw, models, beyond = random.Random(seed), 0, 0
    for number in range(40 * seed, 40 * seed + (4 if seed == 0 else 40)):
        instance = random_instances(root, problem)(number)
        if number % 2:
            tables = problem in ("layout", "relayout", "tri_domain")
            instance = made_odd(instance, draw) if tables else MAKERS[problem]["edges"](number)
        if get_problem(problem).count(instance) > MOST_CANDIDATES:
            continue
        truth = moeopt.solve(instance, "brute-force")
        packing = get_problem(problem).packing(instance)
        if truth.objective is None or (optimum := packing.pack(truth.objective)) < 1:
            continue
        for form in tight(instance, optimum, draw):
            try:
                found = least(Model(neutral_model(instance, form).data))
            except InputError:  # too many plans or numbers to be listed
                continue
            except OverflowError:  # beyond the 64 bits of CP-SAT
                beyond += 1
                continue
            assert found is not None, (number, form)
            assert found <= optimum, (number, form)
            models += 1
    assert models > beyond


def made_odd(instance: Any, draw: random.Random) -> Any:
    """Return an instance with what usual ones seldom have, or the same where none may have it."""
    data = instance.model_dump(mode="json")
    kind = draw.choice(["equal", "zero", "idle", "few"])
    tables = data["experts"] if isinstance(data.get("experts"), list) else data.get("scenarios", [])
    for name in [name for name in (tables[0] if tables else {}) if name.endswith("_ns")]:
        if draw.random() < 0.5 and isinstance(tables[0][name], int) and kind in ("equal", "zero"):
            for one in tables:
                known = one[name] is not None
                one[name] = one[name] if not known else tables[0][name] if kind == "equal" else 0
        elif (
            draw.random() < 0.5 and isinstance(tables[0][name], list) and kind in ("equal", "zero")
        ):
            for one in tables:
                one[name] = [one[name][0] if kind == "equal" else 0] * len(one[name])
    if kind == "idle" and tables and "tokens" in tables[0]:
        some = isinstance(tables[0]["tokens"], list)
        for one in tables:
            one["tokens"] = [t * draw.randint(0, 1) for t in one["tokens"]] if some else 0
    if kind == "few":
        single = isinstance(data.get("experts"), list) and data["problem"] != "tri_domain"
        data |= {"experts": data["experts"][:1]} if single else {}
    for name in ("dram_striped_ns", "dram_localized_ns", "relayout_ns", "prefetch_ns", "hbm_slots"):
        if name in data and draw.random() < 0.3:
            data[name] = 0
    try:
        return type(instance).model_validate(data)
    except InputError:
        return instance


def rows(model: Model) -> list[tuple[int, int]]:
    """Return each row with the sign that its multipliers may have."""
    return [(row, 1 if side is not None else -1) for row, side in enumerate(model.least)]


def test_parts_add_up() -> None:
    """Two variables that one row joins: relaxed, each part is bounded alone."""
    data = {
        "format": "moeopt-model", "version": 2, "problem": "x", "instance": "y", "lemmas": [],
        "vars": [[0, 3, True], [0, 3, True]], "objective": [[0, 2], [1, 3]],
        "rows": [[[[0, 1], [1, 1]], ">=", 4, "a"], [[[0, 2]], "<=", 5, "b"]],
        "constant": 1, "denominator": 1, "grid": 1,
    }  # fmt: skip
    model = Model(data)  # at best x = 2, y = 2: 11
    part = {"propagation": 9, "leaves": [[1, []]], "tree": [0]}
    proof = {
        "scale": 1, "relaxed": [[0, 3]],
        "parts": [part | {"vars": [0], "bound": -3}, part | {"vars": [1], "bound": -1}],
    }  # fmt: skip
    check_parts(model, 9, proof, Steps())
    with pytest.raises(RefusedError, match="parts: prove 9, not 10"):
        check_parts(model, 10, proof, Steps())
    proof["parts"][0]["bound"] = -2
    with pytest.raises(RefusedError, match=r"parts\[0\].tree\[0\]"):
        check_parts(model, 9, proof, Steps())


@cache
def proof(root: Path) -> tuple[Model, dict[str, Any]]:
    """Return the model of an instance, and a certificate with branches."""
    instance = moeopt.load(root / "instances" / "cache" / KEY)
    found = certify(instance, best(root / "instances" / "cache")["objective"], 60.0, 41)
    assert isinstance(found["tree"][0], list)
    return Model(neutral_model(instance).data), found


FALSE: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "higher bound": (lambda c: c.update(bound=c["bound"] + 10**9), "contradict nothing"),
    "other model": (lambda c: c.update(model_sha256="0" * 64), "is that of another model"),
    "two entries": (lambda c: c.update(bound=[1, 2]), "bound: must be an integer"),
    "float": (lambda c: c.update(bound=1.0), "bound: must be an integer"),
    "no leaves": (lambda c: c.update(leaves=[]), "contradict nothing"),
    "weight": (lambda c: c["leaves"][0].__setitem__(0, -1), "w must not be negative"),
    "signs": (
        lambda c: [pair.__setitem__(1, -pair[1]) for pair in c["leaves"][0][1]],
        "sign is wrong",
    ),
    "no row": (lambda c: c["leaves"][0][1].append([10**6, 1]), "is unknown"),
    "no column": (lambda c: c["tree"].__setitem__(0, [10**6, 0]), "is no variable"),
    "a side left out": (lambda c: c["tree"].pop(), "tree: ends too early"),
    "too many": (lambda c: c["tree"].append(0), "stands after the tree's end"),
    "no tree": (lambda c: c.update(tree=[]), "tree: ends too early"),
    "text": (lambda c: c.update(tree="x"), "tree: must be a list"),
    "huge": (lambda c: c.update(bound=10**70), "bound: must be an integer"),
}


@pytest.mark.parametrize("what", FALSE)
def test_what_does_not_hold_is_refused(what: str, root: Path) -> None:
    """Any change that matters; the unchanged one holds."""
    model, data = proof(root)
    assert verify(model, data) == data["bound"]
    data = json.loads(json.dumps(data))
    change, reason = FALSE[what]
    change(data)
    with pytest.raises(RefusedError, match=reason):
        verify(model, data)


@pytest.mark.slow
def test_a_thousand_tampered_certificates_are_refused(root: Path) -> None:
    """One number of tree, leaves or bound is changed: refused, or still true."""
    model, data = proof(root)
    draw, refused = random.Random(0), 0
    for _ in range(1000):
        copy = json.loads(json.dumps(data))
        copy["bound"] += draw.choice([1, 10**6, 10**12])  # above the optimum: nothing proves it
        for _ in range(draw.randint(0, 3)):
            leaf = draw.choice(copy["leaves"])
            pair = draw.choice(leaf[1]) if leaf[1] else leaf
            pair[-1 if leaf[1] else 0] = draw.randint(-(2**50), 2**50)
            copy["tree"][draw.randrange(len(copy["tree"]))] = draw.choice([-1, 0, [0, 1]])
        with pytest.raises(RefusedError):
            verify(model, copy)
        refused += 1
    assert refused == 1000


def test_the_worst_file_ends(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Work is counted: a tree that would take hours is refused after so many steps."""
    model, data = proof(root)
    branches = [[j, 0] for j, whole in enumerate(model.whole) if whole][:200]
    worst = data | {"tree": branches * 200, "propagation": 10**9}
    monkeypatch.setattr(Steps, "left", 10**4)
    with pytest.raises(RefusedError, match="too many steps"):
        verify(model, worst)


HOSTILE = {
    "bomb.json.gz": gzip.compress(b"[" + b"[]," * 10**6 + b"[]]"),
    "deep.json": b"[" * 100_000,
    "digits.json": b'{"version": 2, "bound": ' + b"9" * 5000 + b"}",
    "list.json": b"[]",
    "none.json": b"",
    "cut.json.gz": gzip.compress(b"{}" * 1000)[:20],
    "other.json": b'{"version": 2, "format": "x"}',
    "old.json": b'{"version": 1}',
    "\x1b[31m.json": b"{}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files_are_one_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2; no escape of a file's name reaches the terminal."""
    (tmp_path / name).write_bytes(HOSTILE[name])
    assert checker.main([str(tmp_path / name)]) == 2
    captured = capsys.readouterr()
    [line] = captured.err.splitlines()
    assert captured.out == ""
    assert "\x1b" not in line


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda file: os.mkfifo(file), "is no regular file"),
        (lambda file: file.write_bytes(b"[" + b"[]," * 2**19 + b"[]]"), "too many lists"),
    ],
)
def test_what_waits_or_grows_is_refused(
    make: Callable[[Path], Any], reason: str, tmp_path: Path
) -> None:
    """A pipe that nobody writes to, and a text of which each byte makes thirty."""
    make(tmp_path / "m.json")
    with pytest.raises(checker.RefusedError, match=reason):
        checker.read(tmp_path / "m.json")


BAD_FILES = {
    "empty": ("", "is no JSON"),
    "list": ("[]", "an object of version 2"),
    "other": ('{"version": 2}', "format: must be moeopt-certificate"),
    "instance": (
        '{"version": 2, "format": "moeopt-certificate", "problem": "cache", "instance": "../x"}',
        "has no cache instance called",
    ),
    "problem": (
        '{"version": 2, "format": "moeopt-certificate", "problem": "os", "instance": "x"}',
        "os",
    ),
}


@pytest.mark.parametrize("what", BAD_FILES)
def test_bad_certificates_are_one_line(
    what: str, copied: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2, nothing on stdout, nothing written."""
    text, reason = BAD_FILES[what]
    Path("c.json").write_text(text)
    before = (copied / "best_known.json").read_bytes()
    line = refused_command(capsys, ["verify", "c.json", "--write"], run=run_tool)
    assert "c.json: " in line
    assert reason in line
    assert len(line) < 500
    assert (copied / "best_known.json").read_bytes() == before


BAD_COMMANDS = {
    "no file": (["check", "none.json"], "none.json: cannot be read: No such file"),
    "a folder": (["check", "instances"], "is a folder; name a file in it"),
    "no library": (["check", "good.json.gz", "--library", "none"], "is not an instance library"),
    "an instance": (["check", f"instances/cache/{KEY}"], "is an instance, not a solution"),
    "no name": (["check", "some.sol"], "--instance FILE says whose answer it is"),
    "other instance": (["check", "some.sol", "--instance", "mine.json"], "is another instance"),
    "broken": (["check", "broken.json"], "broken.json: CA-C2: "),
    "unknown": (["check", "unknown.json"], "has no cache instance called 'unknown'"),
    "credit": (["check", "good.json.gz", "--by", "a|b"], "--by: must be a name of at most"),
    "no credit": (["verify", "x", "--by", ""], "--by: must be a name of at most"),
    "no certificate": (["verify", "good.json.gz"], "an object of version 2"),
    "table": (["table", "cahce"], "did you mean cache?"),
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
    assert reason in refused_command(capsys, arguments, run=run_tool)


@pytest.mark.parametrize(
    "problem",
    [pytest.param(name, marks=[pytest.mark.slow] * (name == "placement")) for name in PROBLEMS],
)
def test_certificates_are_about_the_models_of_today(problem: str, root: Path) -> None:
    """Of the smallest instance that has a certificate about each of them: no row has changed."""
    folder, smallest = root / "instances" / problem, dict[str, tuple[int, str]]()
    best = json.loads((folder / "best_known.json").read_text())
    for key, fields in best.items():
        if "certificate" in fields:
            with gzip.open(folder / fields["certificate"], "rt") as file:
                lemma = file.read(700).partition('"lemma": "')[2].partition('"')[0]
            size = (folder / key).stat().st_size
            smallest[lemma] = min(smallest.get(lemma, (size, key)), (size, key))
    for _, key in smallest.values():
        certificate = checker.read(folder / best[key]["certificate"])
        model = Model(neutral_model(moeopt.load(folder / key), certificate.get("form")).data)
        assert model.sha256 == certificate["model_sha256"], key


def test_what_is_proven_has_a_certificate_or_a_reason(root: Path) -> None:
    """At least nine in ten have one; ``without_certificate.csv`` names the others."""
    library = root / "instances"
    proven = {
        (problem, key): "certificate" in fields
        for problem in PROBLEMS
        for key, fields in json.loads((library / problem / "best_known.json").read_text()).items()
        if fields["status"] == "optimal"
    }
    with (library / "without_certificate.csv").open(newline="") as file:
        rows = {(row["problem"], row["instance"]): row["reason"] for row in csv.DictReader(file)}
    assert set(rows) == {place for place, certified in proven.items() if not certified}
    assert all(rows.values())
    assert sum(proven.values()) >= 0.9 * len(proven)
