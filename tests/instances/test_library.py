"""The instance library: every file as indexed, every optimum proven again, every family remade."""

import gzip
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import moeopt
from tests.real_traces import traces_folder
from tests.rooms.problems import PROBLEMS
from tests.rooms.study import instance_files

MAX_BYTES = 40 * 10**6

BY_CERTIFICATE = {"esft-batch/esft-intent-batch16-share0.75.json.gz"}
"""Proven by certificates, which `verify` checks; the methods end 0.04 % short after 400 s."""

TAKES_LONG = ("bitwidth", "placement", "cache", "layout", "relayout", "replication")
"""Problems whose families take seconds to make; a slow test remakes them."""


DRAWN = ("tri_domain", "relayout", "layout", "deferral", "replication", "placement", "cache")
"""Problems that have families that are drawn at random."""


def in_json(objective: Any) -> Any:
    """Return an objective as it stands in a file: a lexicographic one is a list."""
    return list(objective) if isinstance(objective, tuple) else objective


FLOAT = re.compile(rb"-?\d+\.\d+(?:e[+-]\d+)?")


def content(path: Path) -> bytes:
    """Return a file's bytes, decompressed, its floats to 12 digits.

    zlib versions compress differently. The scale of losses, the one float of an instance, is what
    BLAS gave: its last digit is the processor's, the integers are not.
    """
    text = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return FLOAT.sub(lambda found: b"%.12g" % float(found[0]), text)


def entries(root: Path, problem: str, file: str) -> dict[str, Any]:
    """Return the entries of an index file of a problem."""
    loaded: dict[str, Any] = json.loads((root / "instances" / problem / file).read_text())
    return loaded


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_every_optimum_is_proven_again(problem: str, every: bool, root: Path) -> None:
    """The exact method of the entry closes the instance to the same objective.

    In the quick suite the smallest file.
    """
    folder = root / "instances" / problem
    best = entries(root, problem, "best_known.json")
    proven = {file: entry for file, entry in best.items() if entry["status"] == "optimal"}
    assert proven
    files = sorted(proven, key=lambda file: ((folder / file).stat().st_size, file))
    for file in files if every else files[:1]:
        instance, entry = moeopt.load(folder / file), proven[file]
        if file in BY_CERTIFICATE:
            assert "certificate" in entry
            continue
        result = moeopt.solve(instance, entry["method"], work_limit=2000)
        assert (result.status, in_json(result.objective)) == ("optimal", entry["objective"]), file
        assert entry["bound"] == entry["objective"], file


@pytest.mark.parametrize("share", [(0, 400), pytest.param((0, 1), marks=pytest.mark.slow)])
@pytest.mark.parametrize("problem", PROBLEMS)
def test_nothing_is_wrong(problem: str, share: tuple[int, int], root: Path) -> None:
    """`instances/build.py verify`: files, checker, bounds and certificates agree with every entry.

    All hashes, and a share of the instances. The engine's part is a test of its own, in
    tests/sim/engine.
    """
    folder = root / "instances" / problem
    assert build_script(root).verify(folder, execute=False, share=share) == []


def test_verification_sees_faults(root: Path, tmp_path: Path) -> None:
    """A changed file, objective, bound, solution or origin, and files too many: each a fault."""
    build = build_script(root)
    library, folder = root / "instances" / "tri_domain", tmp_path / "tri_domain"
    best, index = (entries(root, "tri_domain", f"{of}.json") for of in ("best_known", "index"))
    kept = sorted(best)[:9]
    first, second, third, fourth, fifth, sixth, seventh, eighth, ninth = kept
    best, index = ({key: of[key] for key in kept} for of in (best, index))
    best = {key: {f: v for f, v in of.items() if f != "certificate"} for key, of in best.items()}
    for file in (*kept, *(best[key]["solution"] for key in kept)):
        (folder / file).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(library / file, folder / file)
    best[first]["objective"] += 1
    best[second]["bound"] -= 1
    best[third]["solution"] = best[fourth]["solution"]
    index[sixth]["provenance"] = {}
    nameless = moeopt.load(folder / seventh).model_copy(update={"provenance": {"seed": 0}})
    moeopt.save(nameless, folder / seventh)
    shutil.copy(folder / eighth, folder / ninth)
    (folder / "best_known.json").write_text(json.dumps(best))
    (folder / "index.json").write_text(json.dumps(index))
    other = moeopt.load(folder / fifth).model_copy(update={"quantum_ns": 7})
    moeopt.save(other, folder / fifth)
    shutil.copy(folder / fourth, (folder / fourth).with_name("more.json"))
    wrong = "\n".join(build.verify(folder))
    for key, reason in (
        (first, "the solution costs"),
        (first, "status optimal with bound"),
        (second, "status optimal with bound"),
        (third, "the solution is for"),
        (fifth, "is not the file that was indexed"),
        (sixth, "provenance is not that of the index"),
        (seventh, "provenance: machine, model, trace is missing"),
        (ninth, f"has the name of {eighth}"),
        ("more.json", "is not in all of folder and indexes"),
    ):
        assert any(key in line and reason in line for line in wrong.splitlines()), (key, reason)


def test_restating_changes_provenance_and_nothing_else(root: Path, tmp_path: Path) -> None:
    """Other words about a family: files and index follow. Other loads: nothing is written."""
    build, folder = build_script(root), tmp_path / "tri_domain"
    folder.mkdir()
    family = """[[family]]
name = "few"
about = "some"
same_experiment_as = { deepseek-v2 = "others" }
instance = "few-{seed}"
fixed = { machine = "trimoe", model = "deepseek-v2", workload = "trimoe-skew", batch = 16 }
grid = { seed = [0, 1] }
"""
    (folder / "families.toml").write_text(family)
    build.generate(folder)
    index = {f"few/few-{n}.json": build._entry(folder / f"few/few-{n}.json") for n in (0, 1)}
    assert {entry["same_experiment_as"] for entry in index.values()} == {"others"}
    moeopt.save(index, folder / "index.json")
    (folder / "families.toml").write_text(family.replace("some", "other words"))
    build.restate(folder)
    for key, entry in json.loads((folder / "index.json").read_text()).items():
        provenance = index[key]["provenance"] | {"family": "other words"}
        assert moeopt.load(folder / key).provenance == entry["provenance"] == provenance
        assert entry["sha256"] != index[key]["sha256"]
    kept = (folder / "few" / "few-0.json").read_bytes()
    (folder / "families.toml").write_text(family.replace("batch = 16", "batch = 17"))
    with pytest.raises(SystemExit, match=r"few-0\.json: more than the provenance"):
        build.restate(folder)
    assert (folder / "few" / "few-0.json").read_bytes() == kept


def test_the_library_stays_small(root: Path) -> None:
    """Under 40 MB in all."""
    files = (path for path in (root / "instances").rglob("*") if path.is_file())
    assert sum(path.stat().st_size for path in files) < MAX_BYTES


def build_script(root: Path) -> ModuleType:
    """Return `instances/build.py` as a module."""
    spec = importlib.util.spec_from_file_location("build", root / "instances" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    build = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(build)
    return build


def test_the_home_page_lists_the_families(root: Path) -> None:
    """`instances/build.py table`, today."""
    page = (root / "instances" / "README.md").read_text()
    shown = page.split("<!-- families: begin -->\n")[1].split("<!-- families: end -->")[0]
    assert shown == build_script(root).table()


@pytest.mark.parametrize(
    ("family", "first", "length"),
    [
        ("layout/own-esft-once", "first_window", "batch"),
        ("placement/mixtral-once-earlier-steps", "first_step", "steps"),
        ("balance/prefill-mixtral-once", "prompt_begin", "seq_len"),
    ],
)
def test_each_token_is_in_one_instance(family: str, first: str, length: str, root: Path) -> None:
    """No two instances of these families have a token of a trace in common."""
    problem, name = family.split("/")
    spans: dict[str, list[tuple[int, int]]] = {}
    for entry in entries(root, problem, "index.json").values():
        options = entry["provenance"]["options"]
        if entry["family"] == name:
            begin, tokens = options[first], options[length]
            begin *= tokens if first == "first_window" else 1
            of_trace = spans.setdefault(entry["provenance"]["trace"]["name"], [])
            of_trace.append((begin, begin + tokens))
    for found in map(sorted, spans.values()):
        assert all(end <= begin for (_, end), (begin, _) in pairwise(found))
    assert len(spans) > 2


@pytest.mark.parametrize(
    "problem",
    [
        pytest.param(name, marks=pytest.mark.slow) if name in TAKES_LONG else name
        for name in PROBLEMS
    ],
)
def test_families_are_remade_byte_for_byte(problem: str, root: Path, tmp_path: Path) -> None:
    """`instances/build.py generate` gives the committed files; real ones where traces are."""
    traces = traces_folder()
    build = build_script(root)
    folder = tmp_path / problem
    folder.mkdir()
    shutil.copy(root / "instances" / problem / "families.toml", folder)
    build.generate(folder, traces, drawn_only=traces is None)
    committed = root / "instances" / problem
    made = {path.relative_to(folder): content(path) for path in instance_files(folder)}
    kept = {path.relative_to(committed): content(path) for path in instance_files(committed)}
    families = tomllib.loads((committed / "families.toml").read_text())["family"]
    left = {
        str(Path(family["name"]) / f"{name}{family.get('suffix', '.json')}")
        for family in families
        for name in family.get("kept", {})
    }
    whole = {family["name"] for family in families if build.EVERY in family.get("kept", {})}
    left |= {str(file) for file in kept if file.parts[0] in whole}
    asked = made.keys() | ({file for file in kept if str(file) not in left} if traces else set())
    assert [str(file) for file in asked if made.get(file) != kept.get(file)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "problem", ["balance", *(pytest.param(name, marks=pytest.mark.slow) for name in DRAWN)]
)
def test_they_are_the_same_on_other_processors(problem: str, root: Path) -> None:
    """Other vector units, threads of BLAS and hashes: not one byte is another."""
    others = {
        "NPY_DISABLE_CPU_FEATURES": "X86_V3",
        "OPENBLAS_NUM_THREADS": "2",
        "PYTHONHASHSEED": "1",
    }
    environment = os.environ | others | {"PYTHONPATH": str(root)}
    command = [sys.executable, str(root / "instances" / "build.py"), "remade", problem]
    told = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert told.returncode == 0, told.stdout + told.stderr
