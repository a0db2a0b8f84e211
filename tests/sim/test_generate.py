"""What holds for every problem's generator: the same again, back from a file, seeds count."""

import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.refusals import refused
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.study import assume
from tests.sim.traces_drawn import skewed_trace

ROOT = Path(__file__).parents[2]

LIGHT = {"bitwidth": "convex", "replication": "v3"}
"""The family to take where the first needs seconds."""

NOTHING_DRAWN = {"deferral", "split"}


def drawn() -> dict[str, dict[str, Any]]:
    """Return, for each problem, arguments of a family of the library that needs no trace."""
    found = {}
    for path in sorted((ROOT / "instances").glob("*/families.toml")):
        problem = path.parent.name
        for family in tomllib.loads(path.read_text())["family"]:
            arguments = family["fixed"] | {name: of[0] for name, of in family["grid"].items()}
            if "trace" not in arguments and family["name"] == LIGHT.get(problem, family["name"]):
                found.setdefault(problem, arguments)
    return found


DRAWN = drawn()


@pytest.mark.parametrize("problem", DRAWN)
def test_the_same_arguments_give_the_same_file(problem: str, tmp_path: Path) -> None:
    """Made twice, plain and compressed; what is loaded is what was saved."""
    first, second = (moeopt.generate(problem, **DRAWN[problem]) for _ in range(2))
    for name in ("x.json", "x.json.gz"):
        files = tmp_path / f"first-{name}", tmp_path / f"second-{name}"
        moeopt.save(first, files[0])
        moeopt.save(second, files[1])
        assert files[0].read_bytes() == files[1].read_bytes()
        assert moeopt.load(files[0]) == first


@pytest.mark.parametrize("problem", DRAWN)
def test_another_seed_gives_another_instance(problem: str) -> None:
    """Where anything is drawn; the same one where machine and model say all of it."""
    made = [moeopt.generate(problem, **DRAWN[problem] | {"seed": seed}) for seed in range(4)]
    bare = {str(one.model_dump(exclude={"name", "provenance"})) for one in made}
    assert (len(bare) > 1) == (problem not in NOTHING_DRAWN)
    assert problem in NOTHING_DRAWN or len({one.name for one in made}) > 1
    assert moeopt.generate(problem, **DRAWN[problem], name="mine").name == "mine"


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"no_option": 64}, "no_option: is not a known key"),
        ({"seed": -1}, "seed: must not be negative, not -1"),
        ({"machine": "abacus"}, "machine: 'abacus' is neither a file nor one of"),
        ({"model": "abacus"}, "model: 'abacus' is neither a file nor one of"),
        ({"name": "x" * 300}, "name: "),
    ],
)
@pytest.mark.parametrize("problem", DRAWN)
def test_what_no_generator_takes(problem: str, change: dict[str, Any], says: str) -> None:
    """One line, before anything is made."""
    assert says in refused(moeopt.generate, problem, **DRAWN[problem] | change)


@pytest.mark.parametrize("problem", sorted(DRAWN.keys() - {"bitwidth"}))
def test_the_provenance_says_how_to_make_the_instance_again(problem: str) -> None:
    """Machine, model, source, seed, all options as decided; and the user's notes stand beside."""
    arguments = DRAWN[problem]
    instance = moeopt.generate(problem, **arguments, name="x", notes={"licence": "MIT"})
    assert instance.provenance["licence"] == "MIT"
    options = instance.provenance["options"]
    options.pop("prompt_begin", None)  # where the seed put the prompt, no option
    source = {"machine", "model", "workload", "quantum_ns", "seed"}
    given = {name: value for name, value in arguments.items() if name in source}
    again = moeopt.generate(problem, **given | options, name="x")
    assert again.model_copy(update={"provenance": None}) == instance.model_copy(
        update={"provenance": None}
    )


LITE: dict[str, Any] = {"machine": "trimoe", "model": "deepseek-v2-lite", "seed": 1, "batch": 40}
SOURCES: dict[str, dict[str, Any]] = {
    "window": {"trace": skewed_trace(), "layer": 1},
    "streams": {"trace": skewed_trace(), "layer": 2, "batching": "streams"},
    "workload": {"workload": "trimoe-skew"},
}


@pytest.mark.parametrize(
    ("problem", "source"),
    [
        pytest.param(
            problem,
            source,
            marks=[pytest.mark.slow] * (problem == "relayout" and source != "window"),
        )
        for problem in ("tri_domain", "relayout", "layout")
        for source in SOURCES
    ],
)
def test_an_instance_can_be_made_again_under_another_assumption(problem: str, source: str) -> None:
    """From the instance alone, what the generator makes of the same source with that option."""
    more = {"layout": {"first_window": 1}, "relayout": {"history": 4}}.get(problem, {})
    asked = LITE | SOURCES[source] | more
    instance = moeopt.generate(problem, **asked)
    assumptions = [s for s in get_problem(problem).assumptions() if not (s.methods or s.is_setting)]
    assert len(assumptions) > 2
    for assumption in assumptions:
        name = assumption.name
        for value in assumption.values:
            again = assume(instance, name, value)
            assert again == moeopt.generate(problem, **asked | {name: value}, name=instance.name)
            assert (again == instance) == (value == assumption.default), (name, value)
        value = next(value for value in assumption.values if value != assumption.default)
        for change in ({"dimms": 20}, {"provenance": None}):
            assert assume(instance.model_copy(update=change), name, value) is None, name


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_machine_that_lacks_a_part_is_told_what_fits(name: str) -> None:
    """The problem, the part, and the problems that this machine can have: those are made."""
    options = {"cache": {"tokens": 20}, "joint": {"steps": 2}, "placement": {"steps": 2}}
    common = {"model": "mixtral-8x7b", "workload": "olmoe-1b-7b"}
    given = {**common, **options.get(name, {})}
    if name == "split":
        del given["workload"]  # which nothing of it depends on
    for machine in ("rtx4090+ryzen-am5", "ryzen-am5", "cxl-ndp"):
        said = refusal(moeopt.generate, name, machine=machine, **given)
        asked = "placement" if machine == "cxl-ndp" else "tri_domain"
        there = refusal(moeopt.generate, asked, machine=machine, **common, **options.get(asked, {}))
        fit = there.rpartition("fit this machine: ")[2].split(", ")
        assert (name in fit) == (not said), said
        if said:
            assert re.match(rf"generate {name}: \w+: machine {re.escape(machine)} has no ", said)


def refusal(function: Callable[..., object], *given: object, **options: object) -> str:
    """Return why a function refuses, nothing if it does not."""
    try:
        function(*given, **options)
    except InputError as error:
        return str(error)
    return ""
