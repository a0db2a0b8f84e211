"""Choose the instances that `moeopt warm` solves: those that have something new compiled.

    python -m tests.warm_instances

writes ``warm.json`` of every problem, from the random instances of its tests, and names the kernels
that none of them has compiled. It compiles everything anew, which takes a minute or two.
"""

import json
import os
import tempfile
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tests.rooms.core import KERNELS, PACKAGE, compile_all
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.solvers import solve_with_all

SEEDS = 6
"""Instances of each problem: among six there are several windows, several layers and so on."""

RANDOM_INSTANCES = {
    "tri_domain": "random_instances",
    "deferral": "random_schedules",
}
"""Problem -> the module of its tests with `random_instance`, where it has another name."""

OTHERS: dict[str, list[tuple[str, dict[str, int]]]] = {
    "relayout": [("mixed", {"experts": 8})],
    "layout": [("several scenarios", {"experts": 8})],
    "placement": [("free dispatch", {}), ("free, gpu-bound", {})],
}
"""Problem -> kinds of instances, and what else they are made with, that other kernels are for."""


def instances(problem: str) -> Iterator[Any]:
    """Yield random instances of a problem, and those that its tests say others are compiled for."""
    module = RANDOM_INSTANCES.get(problem, f"{problem}_random_instances")
    name = f"tests.problems.{problem}.{module}"
    if find_spec(name) is None:
        return
    made = import_module(name)
    yield from map(made.random_instance, range(SEEDS))
    for make in getattr(made, "ALSO_COMPILED", ()):
        yield from map(make, range(SEEDS // 2))
    for kind, options in OTHERS.get(problem, []):
        yield from (made.random_instance(seed, kind, **options) for seed in range(2))


def versions() -> int:
    """Return how many kernels there are, each counted once per combination of types."""
    return sum(len(kernel.dispatcher.signatures) for kernel in KERNELS)


def main() -> None:
    """Write the files."""
    os.environ["MOEOPT_CACHE_DIR"] = tempfile.mkdtemp()  # what is loaded hides what it calls
    compile_all()
    for problem in PROBLEMS:
        home, chosen = get_problem(problem), []
        file = PACKAGE / "problems" / problem / "warm.json"
        for instance in instances(problem):
            before = versions()
            solve_with_all(instance, home)
            if versions() > before:
                chosen.append(instance.model_dump(mode="json"))
        file.unlink(missing_ok=True)
        if chosen:
            lines = ",\n".join(json.dumps(one, separators=(",", ":")) for one in chosen)
            file.write_text(f"[\n{lines}\n]\n", encoding="utf-8")
        print(f"{problem}: {len(chosen)} instances")
    for kernel in KERNELS:
        if not kernel.dispatcher.signatures:
            print(f"not compiled: {kernel.py_func.__module__}.{kernel.py_func.__qualname__}")


if __name__ == "__main__":
    main()
