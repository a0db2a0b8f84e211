"""Systems on their own layouts, what the cold cut is worth, and what the foreign layout hid.

    python benchmarks/studies/own_layouts.py [--tables own,batches,foreign,cuts,rule]

``own``: every system of `layout` on its own layout, decided from a forecast, over the proven best
of any layout and schedule, and TriMoE's layout with the best schedule beside it.
``batches``: the same by tokens in the window, which decide who is ahead.
``foreign``: the same systems on TriMoE's layout of a tri_domain family and on their own layout for
the same loads, both over the proven best schedule on TriMoE's layout: what tables showed before.
``cuts``: TriMoE's schedule where other experts are cold, over the best schedule on each layout, and
that best schedule over the one where 70 % of the experts are cold.
``rule``: TriMoE's layout rule with hindsight, over the best of any layout, by cut and tie order.

All from the instance library, without traces; median / maximum.
"""

import argparse
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import moeopt
from benchmarks.rooms.layout import Instance as Layout
from benchmarks.rooms.layout import Solution, systems
from benchmarks.rooms.layout import generate as layouts
from benchmarks.rooms.layout import objective as layout_objective
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.sim import Record
from benchmarks.rooms.tri_domain import Instance, heuristics, objective, resettled

LIBRARY = Path(__file__).parents[2] / "instances"
OWN = ("own-deepseek-v2", "own-qwen3-235b-a22b", "own-esft")
FIXED = ("deepseek-v2", "qwen3-235b-a22b", "esft-window", "hard")
COMPARED = ("trimoe", "ktransformers", "hybrimoe", "fiddler", "monde", "klotski")
CUTS = ("experts 0.15", "experts 0.27", "experts 0.4", "experts 0.7", "tokens 0.08")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", default=",".join(TABLES), help="comma-separated")
    for name in parser.parse_args().tables.split(","):
        for line in TABLES[name]():
            print(line, flush=True)
        print()


def own(families: Sequence[str] = OWN) -> Iterator[str]:
    """Yield the table of systems on their own layouts over the best of any layout."""
    labels = get_problem("layout").labels
    names = ("trimoe", "trimoe-best-schedule", *COMPARED[1:])
    yield from _head("family", [f"`{name}` ({labels[name]})" for name in names])
    for family in families:
        columns: dict[str, list[float]] = {name: [] for name in names}
        for instance, best in proven("layout", family):
            for name in names:
                value = layout_objective(instance, systems.SYSTEMS[name](instance))
                columns[name].append(value / best - 1)
        yield _row(family, [excess(values) for values in columns.values()])


def batches(families: Sequence[str] = OWN) -> Iterator[str]:
    """Yield the table of systems on their own layouts by tokens in the window."""
    names = ("trimoe", "trimoe-best-schedule", "ktransformers", "monde")
    yield from _head("family, batch", [f"`{name}`" for name in names])
    for family in families:
        found: dict[int, list[list[float]]] = {}
        for instance, best in proven("layout", family):
            columns = found.setdefault(instance.provenance["options"]["batch"], [[] for _ in names])
            for name, column in zip(names, columns, strict=True):
                value = layout_objective(instance, systems.SYSTEMS[name](instance))
                column.append(value / best - 1)
        for batch in sorted(found):
            yield _row(f"{family}, {batch}", [excess(values) for values in found[batch]])


def foreign(families: Sequence[str] = FIXED) -> Iterator[str]:
    """Yield the table of systems on TriMoE's layout and on their own, over TriMoE's layout's best.

    Below 1 a system on its own layout is faster than any schedule on TriMoE's.
    """
    names = COMPARED[1:]
    yield from _head("family, layout", [f"`{name}`" for name in names])
    for family in families:
        given: dict[str, list[float]] = {name: [] for name in names}
        mine: dict[str, list[float]] = {name: [] for name in names}
        for instance, best in proven("tri_domain", family):
            free = without_layout(instance)
            for name in names:
                schedule = heuristics.HEURISTICS[name](instance)
                given[name].append(objective(instance, schedule) / best)
                mine[name].append(layout_objective(free, systems.SYSTEMS[name](free)) / best)
        yield _row(f"{family}, TriMoE's", [ratio(values) for values in given.values()])
        yield _row(f"{family}, its own", [ratio(values) for values in mine.values()])


def cuts(family: str = "esft-window") -> Iterator[str]:
    """Yield the table of TriMoE's schedule by cold cut and by what the layout is decided from."""
    columns = [
        "excess, GPU first at ties",
        "CPU first",
        "best schedule over that of 0.7, last step",
    ]
    yield from _head("layout decided from, cold cut", columns)
    pairs = proven("tri_domain", family)
    for source in ("last step", "offline trace"):
        for cut in CUTS:
            gpu: list[float] = []
            cpu: list[float] = []
            level: list[float] = []
            for instance, reference in pairs:
                made = resettled(instance, "layout_from", source)
                made = None if made is None else resettled(made, "cold_cut", cut)
                assert made is not None
                best = moeopt.solve(made, "threshold")
                if best.status == "optimal":
                    least = objective(made, best.solution)
                    for order, values in (("gpu", gpu), ("cpu", cpu)):
                        schedule = heuristics.trimoe(made, tie_order=order)
                        values.append(objective(made, schedule) / least - 1)
                    level.append(least / reference)
            yield _row(f"{source}, {cut}", [excess(gpu), excess(cpu), f"{median(level):.2f}"])


def rule(families: Sequence[str] = ("esft", "own-esft", "own-deepseek-v2")) -> Iterator[str]:
    """Yield the table of TriMoE's layout rule with hindsight, by cut and tie order."""
    options = [(cut, order) for cut in ("experts 0.7", "tokens 0.08") for order in ("gpu", "cpu")]
    yield from _head("family", [f"{cut}, {order} first" for cut, order in options])
    for family in families:
        cells = []
        for cut, order in options:
            method = partial(systems.trimoe, cold_cut=cut, dimm_choice="in turn", tie_order=order)
            cells.append(
                excess([_hindsight(of, method) / b - 1 for of, b in proven("layout", family)])
            )
        yield _row(family, cells)


def _hindsight(instance: Layout, method: Callable[[Layout], Solution]) -> int:
    """Return what a system's layout costs that is decided from the loads themselves."""
    without = instance.model_copy(update={"forecast_tokens": None})
    return layout_objective(without, method(without))


def without_layout(instance: Instance) -> Layout:
    """Return the layout instance of a tri_domain instance's loads, its offline trace forecast."""
    record = Record.of(instance)
    source = None if record is None else record.source(instance)
    if record is None or source is None:
        raise moeopt.InputError(f"{instance.name}: does not say what it was made from")
    now = np.zeros(source.model.routed_experts, dtype=np.int64)
    for expert in instance.experts:
        now[expert.expert] = expert.tokens
    options = layouts.Options(dimms=instance.dimms, hbm_slots=record.options.get("residents", 0))
    forecast = record.loads(len(now))["offline trace"]
    return layouts.of_loads(source, options, [now], instance.name, forecast)


def proven(problem: str, family: str) -> list[tuple[Any, int]]:
    """Return the instances of a family whose optimum is proven, each with it."""
    known = json.loads((LIBRARY / problem / "best_known.json").read_text())
    return [
        (moeopt.load(LIBRARY / problem / key), entry["objective"])
        for key, entry in known.items()
        if key.startswith(f"{family}/") and entry["status"] == "optimal"
    ]


def excess(values: Sequence[float]) -> str:
    """Return median and maximum in per cent."""
    return f"{100 * median(values):.0f} / {100 * max(values):.0f} %"


def ratio(values: Sequence[float]) -> str:
    """Return median and maximum."""
    return f"{median(values):.2f} / {max(values):.2f}"


def _head(first: str, columns: Sequence[str]) -> Iterator[str]:
    yield _row(first, columns)
    yield "|---|" + "---:|" * len(columns)


def _row(first: str, cells: Sequence[str]) -> str:
    return f"| {first} | {' | '.join(cells)} |"


TABLES: Mapping[str, Callable[[], Iterator[str]]] = {
    "own": own,
    "batches": batches,
    "foreign": foreign,
    "cuts": cuts,
    "rule": rule,
}


if __name__ == "__main__":
    main()
