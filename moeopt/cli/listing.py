"""``moeopt list``: what there is, by name."""

from pathlib import Path
from typing import Annotated

import typer

from moeopt.core.errors import InputError

KINDS = (
    *("problems", "methods", "settlements", "machines", "gpus", "hosts", "models"),
    *("quantisations", "runtimes", "workloads", "instances", "targets"),
)
"""What can be listed."""


def list_command(
    kind: Annotated[str, typer.Argument(help=f"One of {', '.join(KINDS)}.", show_default=False)],
    path: Annotated[Path, typer.Option(help="Folder of the instance library.")] = Path("instances"),
) -> int:
    """List what there is; `--machine` takes one of machines, GPU+HOST, or HOST alone."""
    from moeopt.sim.presets import names, parts

    if kind in ("problems", "methods"):
        _list_problems(with_methods=kind == "methods")
    elif kind == "instances":
        _list_instances(path)
    elif kind in OTHERS:
        OTHERS[kind]()
    elif kind in KINDS:
        own = {"gpus": parts.gpu_names, "hosts": parts.host_names}
        print("\n".join(own[kind]() if kind in own else names(kind)))
    else:
        from moeopt.core.wording import unknown

        raise InputError(f"list: {unknown(kind, KINDS)}")
    return 0


def _list_problems(with_methods: bool) -> None:
    from moeopt.problems.registry import PROBLEMS
    from moeopt.solvers.methods import method_kind, methods

    for name, problem in PROBLEMS.items():
        if not with_methods:
            print(f"{name}\t{problem.about.splitlines()[0]}")
            continue
        for method in methods(name):
            print(f"{name}\t{method}\t{method_kind(problem, method)}")


def _list_settlements() -> None:
    """Print problem, name, the default, the other values, and the methods that take it."""
    from moeopt.problems.registry import PROBLEMS, get_problem

    for name in PROBLEMS:
        for s in get_problem(name).settlements():
            others = " | ".join(s.alternatives)
            taken = ", ".join(s.methods) or "instances"
            print(f"{name}\t{s.name}\t{s.default}\t{others}\t{taken}")


def _list_quantisations() -> None:
    """Print each name, what it is called as well, and its bits per weight for one model."""
    from moeopt.sim.models.quantisations import ALIASES, names, quantised
    from moeopt.sim.presets import get_model

    model = get_model("qwen3-30b-a3b")
    for name in names():
        also = ", ".join(alias for alias, meant in ALIASES.items() if meant == name)
        print(f"{name}\t{also}\t{model.name}: {quantised(model, name).bits_in_words()}")


def _list_targets() -> None:
    from moeopt.exporters.targets import all_targets

    for target in all_targets().values():
        options = ", ".join(option.flag for option in target.options)
        taken = ", ".join(target.problems) or "any problem"
        print(f"{target.name}\t{taken}\t{target.summary}\t{options}")


def _list_instances(path: Path) -> None:
    from moeopt.core.json_files import read_object

    indexes = sorted(path.glob("*/index.json"))
    if not indexes:
        raise InputError(f"--path: {path} has no */index.json; it is not an instance library")
    for index in indexes:
        best = read_object(index.with_name("best_known.json"))
        for file in read_object(index):
            known = best.get(file, {})
            fields = [known.get(name) for name in ("objective", "status", "bound")]
            print("\t".join(map(str, [index.parent / file, *fields])))


OTHERS = {
    "settlements": _list_settlements,
    "quantisations": _list_quantisations,
    "targets": _list_targets,
}
"""Kinds that are more than names."""
