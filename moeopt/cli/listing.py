"""``moeopt list``: what there is, by name."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from moeopt.cli.options import Json, command, print_json
from moeopt.core.errors import InputError

KINDS = (
    *("problems", "methods", "assumptions", "machines", "gpus", "hosts", "models"),
    *("quantisations", "runtimes", "systems", "workloads", "instances", "targets"),
)
"""What can be listed."""


@command
def list_command(
    kind: Annotated[str | None, Parameter(help=f"One of {', '.join(KINDS)}.")] = None,
    /,
    *,
    path: Annotated[Path, Parameter(help="Folder of the instance library.")] = Path("instances"),
    as_json: Json = False,
) -> int:
    """List what there is of a kind; without one, the kinds."""
    for row in _rows(kind, path):
        print_json(row) if as_json else print("\t".join(map(str, row.values())))
    return 0


def _rows(kind: str | None, path: Path) -> Iterable[dict[str, object]]:
    """Return what there is, a row with named columns each."""
    from moeopt.sim.presets import names, parts

    if kind is None:
        return ({"kind": one} for one in KINDS)
    if kind == "settlements":
        raise InputError("list settlements: is now `moeopt list assumptions`")
    if kind == "instances":
        return _instances(path)
    if kind in OTHERS:
        return OTHERS[kind]()
    if kind in KINDS:
        own = {"gpus": parts.gpu_names, "hosts": parts.host_names}
        return ({"name": name} for name in (own[kind]() if kind in own else names(kind)))
    from moeopt.core.wording import unknown_name

    raise unknown_name("list", kind, KINDS)


def _problems() -> Iterator[dict[str, object]]:
    from moeopt.problems.registry import PROBLEMS

    for name, problem in PROBLEMS.items():
        yield {"problem": name, "about": problem.about.splitlines()[0]}


def _methods() -> Iterator[dict[str, object]]:
    from moeopt.problems.registry import PROBLEMS
    from moeopt.solvers.methods import method_kind, methods

    for name, problem in PROBLEMS.items():
        for method in methods(name):
            yield {"problem": name, "method": method, "kind": method_kind(problem, method)}


def _assumptions() -> Iterator[dict[str, object]]:
    from moeopt.problems.registry import PROBLEMS, get_problem

    for name in PROBLEMS:
        for one in get_problem(name).assumptions():
            yield {
                "problem": name,
                "name": one.name,
                "default": one.default,
                "alternatives": " | ".join(one.alternatives),
                "of": ", ".join(one.methods) or "instances",
            }


def _quantisations() -> Iterator[dict[str, object]]:
    """Yield each name, what it is called as well, and its bits per weight for one model."""
    from moeopt.sim.models.quantisations import ALIASES, names, quantised
    from moeopt.sim.presets import get_model

    model = get_model("qwen3-30b-a3b")
    for name in names():
        also = ", ".join(alias for alias, meant in ALIASES.items() if meant == name)
        bits = f"{model.name}: {quantised(model, name).bits_in_words()}"
        yield {"name": name, "aliases": also, "bits": bits}


def _targets() -> Iterator[dict[str, object]]:
    from moeopt.exporters.targets import all_targets

    for target in all_targets().values():
        yield {
            "name": target.name,
            "problems": ", ".join(target.problems) or "any problem",
            "about": target.summary,
            "options": ", ".join(option.flag for option in target.options),
        }


def _instances(path: Path) -> Iterator[dict[str, object]]:
    from moeopt.core.json_files import read_object

    indexes = sorted(path.glob("*/index.json"))
    if not indexes:
        raise InputError(
            f"{path} has no */index.json; it is not an instance library", field="--path"
        )
    for index in indexes:
        best = read_object(index.with_name("best_known.json"))
        for file in read_object(index):
            known = best.get(file, {})
            found = {name: known.get(name) for name in ("objective", "status", "bound")}
            yield {"file": str(index.parent / file), **found}


def _systems() -> Iterator[dict[str, object]]:
    from moeopt.systems.registry import named_systems

    for one in named_systems(None):
        yield {"system": one.name, "paper": one.paper, "needs": " ".join(sorted(one.needs))}


OTHERS: dict[str, Callable[[], Iterable[dict[str, object]]]] = {
    "problems": _problems,
    "methods": _methods,
    "assumptions": _assumptions,
    "quantisations": _quantisations,
    "systems": _systems,
    "targets": _targets,
}
"""Kinds that are more than names."""
