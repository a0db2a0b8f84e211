"""``instances.tools rekey``: a certificate follows its model into another order, no other model."""

import copy
import gzip
import json
import random
import shutil
from pathlib import Path
from typing import Any

import pytest

import moeopt
from instances.tools import rekey
from instances.tools.commands import run
from instances.tools.isomorphism import renumbering
from instances.tools.rekey import stamped
from tests.exporters.test_export_exact_model import random_instances
from tests.rooms.certificates import Model, certify, emit, neutral_model, verify
from tests.rooms.problems import get_problem
from tests.shares import shares

Data = dict[str, Any]

ROWS = [
    [[[0, 1], [1, 1], [2, 1]], "=", 1, "A-C1"],
    [[[3, 1], [4, 1], [5, 1]], "=", 1, "A-C1"],
    [[[0, 7], [3, 7], [6, -1]], "<=", 0, "A-C2"],
    [[[1, 7], [4, 7], [6, -1]], "<=", 0, "A-C2"],
    [[[2, 9], [5, 9], [6, -1]], "<=", 0, "A-C3"],
]
"""Two equal experts go to one of two equal devices or to a slower one; 6 is the makespan."""


def model() -> Data:
    """Return the model of `ROWS`."""
    return {
        "format": "moeopt-model",
        "version": 2,
        "problem": "tri_domain",
        "instance": "tiny",
        "instance_sha256": "0",
        "lemmas": [],
        "vars": [[0, 1, True]] * 6 + [[0, None, False]],
        "rows": copy.deepcopy(ROWS),
        "objective": [[6, 1]],
        "constant": 0,
        "denominator": 1,
        "grid": 1,
    }


def mixed(data: Data, seed: int, terms: bool = True) -> Data:
    """Return a model with variables, rows and, if asked, terms in another order, other IDs."""
    rng = random.Random(seed)
    order = rng.sample(range(len(data["vars"])), len(data["vars"]))
    place = {v: n for n, v in enumerate(order)}

    def named(pairs: list[list[int]]) -> list[list[int]]:
        return [[place[v], c] for v, c in (rng.sample(pairs, len(pairs)) if terms else pairs)]

    rows = [[named(pairs), sense, side, f"new-{name}"] for pairs, sense, side, name in data["rows"]]
    return data | {
        "instance_sha256": "1",
        "vars": [data["vars"][v] for v in order],
        "rows": rng.sample(rows, len(rows)),
        "objective": named(data["objective"]),
    }


@pytest.mark.parametrize("seeds", shares(8, 30))
def test_another_order_is_found(seeds: range) -> None:
    """Also where variables are interchangeable; each row gets the number of its like."""
    for seed in seeds:
        old, new = model(), mixed(model(), seed)
        found = renumbering(old, new)
        assert found is not None
        for n, (terms, sense, side, _) in enumerate(old["rows"]):
            pairs, *rest = new["rows"][found.rows[n]]
            assert rest[:2] == [sense, side]
            assert sorted(pairs) == sorted([found.variables[v], c] for v, c in terms)
        assert sorted(found.rows) == list(range(5))


@pytest.mark.parametrize(
    ("row", "change"),
    [
        (0, [[[0, 1], [1, 1], [2, 1]], ">=", 1, "A-C1"]),
        (2, [[[0, 7], [3, 8], [6, -1]], "<=", 0, "A-C2"]),
        (2, [[[0, 7], [4, 7], [6, -1]], "<=", 0, "A-C2"]),  # each variable as often as before
        (4, [[[2, 9], [5, 9], [6, -1]], "<=", 1, "A-C3"]),
        (4, [[[2, 9], [6, -1]], "<=", 0, "A-C3"]),
    ],
)
def test_another_model_is_not_taken_for_the_same(row: int, change: list[Any]) -> None:
    """A side, a coefficient, a variable, a term; and what is beside the rows."""
    other = model()
    other["rows"][row] = change
    assert renumbering(model(), mixed(other, 1)) is None
    assert renumbering(model(), other) is None
    for field, value in (("grid", 2), ("below", 7), ("vars", [[0, 1, True]] * 7)):
        assert renumbering(model(), mixed(model() | {field: value}, 1)) is None


def test_alike_by_colours_is_not_enough() -> None:
    """Two triangles and a hexagon: each variable and row looks the same, the models differ."""

    def ring(*pairs: tuple[int, int]) -> Data:
        rows = [[[[a, 1], [b, 1]], ">=", 1, "R"] for a, b in pairs]
        return model() | {"vars": [[0, 1, True]] * 6, "rows": rows, "objective": [[0, 0]]}

    triangles = ring((0, 1), (1, 2), (2, 0), (3, 4), (4, 5), (5, 3))
    hexagon = ring((0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 0))
    assert renumbering(triangles, hexagon) is None
    for one in (triangles, hexagon):
        assert renumbering(one, mixed(one, 3)) is not None


@pytest.mark.parametrize("problem", ["tri_domain", "bitwidth", "cache", "relayout"])
def test_a_stamped_certificate_holds(problem: str, root: Path) -> None:
    """Of trees and of parts; with the old hash, or of a model that differs, it is none."""
    kinds = set()
    for number in range(6 if problem == "bitwidth" else 3):
        instance = random_instances(root, problem)(number)
        result = moeopt.solve(instance)
        if result.objective is None:
            continue
        bound = get_problem(problem).packing(instance).pack(result.objective)
        certificate = certify(instance, bound, 60.0, 4001)
        old = neutral_model(instance).data
        new = mixed(old, number, terms=False)
        found = stamped(certificate, old, new)
        assert found is not None
        assert verify(Model(new), found) == certificate["bound"]
        assert stamped(certificate | {"model_sha256": "0"}, old, new) is None
        cheaper = new | {"constant": new["constant"] - new["grid"] * new["denominator"]}
        assert stamped(certificate, old, cheaper) is None
        kinds.add("parts" in certificate)
    assert (True in kinds) == (problem == "bitwidth")


KEY = "mixtral/mixtral-writing-slots3-free.json"


@pytest.fixture
def library(root: Path, tmp_path: Path) -> Path:
    """Return a library of one problem."""
    folder = tmp_path / "instances" / "replication"
    folder.mkdir(parents=True)
    source = root / "instances" / "replication"
    best = json.loads((source / "best_known.json").read_text())
    for name in ("index.json", KEY, best[KEY]["certificate"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source / name, folder / name)
    (folder / "best_known.json").write_text(json.dumps({KEY: best[KEY]}))
    return tmp_path / "instances"


@pytest.mark.slow
def test_what_becomes_of_a_certificate(
    library: Path,
    root: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Kept; stamped where the order changes; made where the model does; lost where none is."""
    file = next(library.rglob("certificates/**/*.gz"))
    before = file.read_bytes()
    options = ["rekey", "--library", str(library), "--old", str(root)]
    assert run(options) == 0
    assert "replication: 1 kept, 0 stamped, 0 made, 0 lost" in capsys.readouterr().out

    build = neutral_model

    def changed(extra: bool) -> None:
        def other(*given: Any) -> Any:
            found = build(*given)
            data = mixed(found.data, 7, terms=False)
            if extra:
                data["rows"].append([[[0, 1]], ">=", 0, "more"])
            return type(found)(data, [])

        monkeypatch.setattr(rekey, "neutral_model", other)
        monkeypatch.setattr(emit, "neutral_model", other)

    changed(extra=False)
    assert run(options) == 0
    assert "0 kept, 1 stamped, 0 made, 0 lost" in capsys.readouterr().out
    assert file.read_bytes() == before
    assert run([*options, "--write"]) == 0
    assert "1 stamped" in capsys.readouterr().out
    assert gzip.decompress(file.read_bytes()) != gzip.decompress(before)
    assert run(options) == 0
    assert "1 kept" in capsys.readouterr().out
    file.write_bytes(before)
    changed(extra=True)
    assert run(options) == 0
    assert "0 kept, 0 stamped, 1 made, 0 lost" in capsys.readouterr().out
    assert run([*options, "--seconds", "0"]) == 1
    assert "replication/" + KEY + ": lost" in capsys.readouterr().out
    assert file.read_bytes() == before
