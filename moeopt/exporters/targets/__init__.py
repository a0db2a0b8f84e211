"""The targets there are: a file each, which declares its `TARGETS`."""

from functools import cache

from moeopt.core.errors import InputError
from moeopt.core.plugins import entries, loaded
from moeopt.core.wording import meant, unknown_name
from moeopt.exporters.target import Target

GROUP = "moeopt.exporters"
"""Entry points of other packages: any name -> an object of `Target`, whose own name counts."""


@cache
def all_targets() -> dict[str, Target]:
    """Return name -> target, by problem and name, those for any problem last.

    Raises
    ------
    InputError
        If an installed plug-in cannot be loaded, or takes the name of another target.
    """
    from . import exact_model, ktransformers, llama_cpp, sglang

    modules = exact_model, ktransformers, llama_cpp, sglang
    every = [one for module in modules for one in module.TARGETS]
    for entry in entries(GROUP).values():
        target = loaded(entry, Target)
        if target.name in {one.name for one in every}:
            raise InputError(f"plugin {entry.name!r}: there is another target {target.name!r}")
        every.append(target)
    order = sorted(every, key=lambda one: (not one.problems, one.problems, one.name))
    return {target.name: target for target in order}


def targets_of(problem: str) -> tuple[Target, ...]:
    """Return the targets that hold a plan of this problem and are made for it."""
    return tuple(t for t in all_targets().values() if t.plan and problem in t.problems)


def known_target(name: str) -> None:
    """Raise an InputError if there is no target of that name, but one much like it."""
    if name not in all_targets() and meant(name, all_targets()):
        raise unknown_name("--to", name, all_targets())


def get_target(name: str, problem: str) -> Target:
    """Return a target for a problem.

    Raises
    ------
    InputError
        If there is none of that name, or it is for another problem; it lists those that fit.
    """
    known = all_targets()
    fitting = [target.name for target in known.values() if target.fits(problem)]
    there = f"for {problem} there are"
    if name == "vllm":
        raise InputError(
            "vLLM itself reads no map of experts; its plugin for Ascend does (moeopt plan "
            f"--ep-size ... --to vllm-ascend); {there}: {', '.join(fitting)}",
            field="--to",
        )
    if name not in known:
        raise unknown_name("--to", name, fitting, there)
    if name not in fitting:
        raise InputError(
            f"{name} does not take {problem}; {there}: {', '.join(fitting)}", field="--to"
        )
    return known[name]
