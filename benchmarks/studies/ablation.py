"""What each sub-method is worth: every one with it and without it, at equal work.

    python benchmarks/studies/ablation.py [--only TEXT] [--out FILE] [--work W]
    python benchmarks/studies/ablation.py --page

The first measures, prints a table and, with ``--out``, adds the records to FILE (what stands there
is not measured again); the second writes ``ablation.md`` from ``ablation.json``.

A *part* is a sub-method, and a way to leave it out: attributes that something else takes the place
of. *Cells* are instances made by `moeopt.generate` with seeds that nothing was tuned on, and with
``MOEOPT_TRACES`` set windows of traces that nothing was tuned on. Both sides get the same work, one
worker and the same seed; what a side needs of it is told as well. (Records of 2026-11-22 had equal
processor time in place of equal work; a cell of the library is named by its file.) A part stays if
without it the gap is larger, or fewer are proven, or a proof takes more time.

To add a problem's parts, add them to `PARTS`; a part that was taken out keeps its records, and goes
to `TAKEN_OUT` with the sentence that says why.
"""

import argparse
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import moeopt
from moeopt.core.errors import InputError

HERE = Path(__file__).parent
TRACES = os.environ.get("MOEOPT_TRACES")
SEEDS = (101, 102, 103)
LAYER = 17
"""Of the traces: none that a method was tuned on."""

Cell = Mapping[str, Any]
"""Arguments of `moeopt.generate`, the problem among them."""


@dataclass(frozen=True)
class Part:
    """A sub-method.

    Attributes
    ----------
    name
        ``problem: what it is``.
    method
        The method that it is a part of.
    cells
        The instances.
    off
        What is put in the place of attributes, ``module:attribute.attribute``, to leave it out.
    work
        Units that either side gets.
    """

    name: str
    method: str
    cells: tuple[Cell, ...]
    off: Mapping[str, Any]
    work: float = 20.0

    @contextmanager
    def left_out(self) -> Iterator[None]:
        """Leave the part out."""
        with ExitStack() as stack:
            for where, instead in self.off.items():
                module, _, path = where.partition(":")
                *owners, attribute = path.split(".")
                owner: Any = import_module(module)
                for of in owners:
                    owner = getattr(owner, of)
                stack.enter_context(patch.object(owner, attribute, instead))
            yield


def cells(problem: str, *, traces: tuple[str, ...] = (), **options: Any) -> tuple[Cell, ...]:
    """Return cells of a synthetic workload for each seed, and of traces if there are any."""
    common = {"problem": problem, "machine": "trimoe"} | options
    drawn = [common | {"model": "deepseek-v2", "workload": "trimoe-skew", "seed": s} for s in SEEDS]
    real = [
        common | {"model": "deepseek-v2-lite", "trace": f"esft_deepseek_v2_lite/{name}", "seed": 7}
        for name in (traces if TRACES else ())
    ]
    return (*drawn, *real)


def nothing(*_: Any, **__: Any) -> None:
    """Do nothing, in place of a step that is left out."""


TRACE_FILES = ("intent.npz", "summary.npz")
LAYOUT = "moeopt.problems.layout"
RELAYOUT = "moeopt.problems.relayout.striped_reads"


def several_windows(number: int) -> tuple[Cell, ...]:
    """Return layouts over so many windows."""
    return cells("layout", traces=TRACE_FILES, batch=256, windows=number, hbm_slots=4)


JOINT = f"{LAYOUT}.multi_scenario.joint_bound:JointBound"
IMPROVER = f"{LAYOUT}.multi_scenario.incumbents"

PARTS = (
    Part(
        "layout: aggregated program over windows",
        "bound-and-pack",
        several_windows(4),
        {f"{JOINT}._aggregate": nothing},
    ),
    Part(
        "layout: two-bin moves",
        "bound-and-pack",
        several_windows(4),
        {f"{IMPROVER}:repartition": nothing},
    ),
    Part(
        "layout: descents before annealing",
        "bound-and-pack",
        several_windows(4),
        {f"{IMPROVER}:Improver._descend": nothing},
    ),
    Part(
        "relayout: plans of DIMMs",
        "evacuation",
        cells("relayout", traces=TRACE_FILES, batch=256, link_window_us=1500.0),
        {f"{RELAYOUT}.plan_model:PlanModel.applies": staticmethod(lambda modes: False)},
    ),
)

TAKEN_OUT: Mapping[str, str] = {
    "layout: bounds of groups of windows": "no bound is higher with them, and incumbents get less"
    " of the work.",
    "layout: annealing on futures, in method robust": "on 25 decisions for eight later windows of"
    " ESFT traces it cost 0.6 % less (standard error 0.2, median 0.0) than the best of four"
    " longest-first layouts, for seven times the work; of sixteen, which `robust` takes now, 0.2 %"
    " less on eight of these decisions, for four times the work. No records are kept of it.",
}
"""Name of a part that is no more -> why."""


def made(cell: Cell) -> Any:
    """Return the instance of a cell."""
    given = dict(cell)
    if "trace" in given:
        given["trace"] = moeopt.load_trace(Path(TRACES or "") / given["trace"])
        given["layer"] = LAYER
    return moeopt.generate(given.pop("problem"), **given)


def solved(part: Part, instance: Any) -> dict[str, Any]:
    """Return what the method reaches, and the processor time that it takes."""
    begin = time.process_time()
    result = moeopt.solve(instance, part.method, work_limit=part.work, workers=1, seed=1)
    spent = time.process_time() - begin
    return {"objective": result.objective, "bound": result.bound, "cpu_s": round(spent, 2)}


def measured(part: Part, cell: Cell) -> dict[str, Any]:
    """Return a record: both sides of one cell."""
    instance = made(cell)
    record = {"part": part.name, "cell": dict(cell), "work": part.work, "date": str(date.today())}
    record["with"] = solved(part, instance)
    with part.left_out():
        record["without"] = solved(part, instance)
    return record


def gap(side: Mapping[str, Any], best: int) -> float:
    """Return how far the bound is below, and the objective above, the best known, in percent."""
    return 100 * (side["objective"] - side["bound"]) / max(best, 1)


def table(records: list[dict[str, Any]]) -> list[str]:
    """Return a row for each part."""
    lines = [
        "| sub-method | cells | work | gap with / without, mean % | largest % "
        "| proven with / without | CPU s with / without | measured |",
        "|---|---:|---:|---:|---:|---:|---:|---|",
    ]
    for name in dict.fromkeys(record["part"] for record in records):
        own = [record for record in records if record["part"] == name]
        gaps: dict[str, list[float]] = {"with": [], "without": []}
        for record in own:
            best = min(record[side]["objective"] for side in gaps)
            for side, of in gaps.items():
                of.append(gap(record[side], best))
        seconds = {side: sum(record[side]["cpu_s"] for record in own) for side in gaps}
        of = [gaps["with"], gaps["without"]]
        cells_of = [
            name,
            str(len(own)),
            f"{own[0]['work']:g}",
            " / ".join(f"{sum(one) / len(one):.3f}" for one in of),
            " / ".join(f"{max(one):.3f}" for one in of),
            " / ".join(str(sum(value == 0 for value in one)) for one in of),
            f"{seconds['with']:.2f} / {seconds['without']:.2f}",
            own[-1]["date"],
        ]
        lines.append(f"| {' | '.join(cells_of)} |")
    return lines


def _intro() -> list[str]:
    """Return what the module says of parts and cells."""
    begin = (__doc__ or "").index("A *part*")
    return (__doc__ or "")[begin:].partition("\n\n")[0].splitlines()


def page(records: list[dict[str, Any]]) -> str:
    """Return the text of the page."""
    kept = [record for record in records if record["part"] not in TAKEN_OUT]
    gone = [record for record in records if record["part"] in TAKEN_OUT]
    lines = ["# Sub-methods with and without", "", *_intro(), ""]
    lines += table(kept)
    if gone:
        reasons = [f"- {name}: {why}" for name, why in TAKEN_OUT.items()]
        lines += ["", "## Taken out", "", *table(gone), "", *reasons]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Measure, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--only", default="", help="parts whose name contains this")
    parser.add_argument("--out", type=Path, help="a file of records, which grows")
    parser.add_argument("--work", type=float, help="units for either side, in place of the part's")
    parser.add_argument("--page", action="store_true", help="write ablation.md from ablation.json")
    given = parser.parse_args()
    file = given.out or HERE / "ablation.json"
    records = json.loads(file.read_text()) if file.exists() else []
    if given.page:
        (HERE / "ablation.md").write_text(page(records))
        return
    known = {(of["part"], json.dumps(of["cell"], sort_keys=True)) for of in records}
    for part in PARTS:
        if given.only not in part.name:
            continue
        if given.work:
            part = Part(part.name, part.method, part.cells, part.off, given.work)
        for cell in part.cells:
            if (part.name, json.dumps(dict(cell), sort_keys=True)) in known:
                continue
            try:
                records.append(measured(part, cell))
            except InputError as error:
                print(f"{part.name}: {dict(cell)}: {error}")
                continue
            if given.out:
                file.write_text(json.dumps(records, indent=1) + "\n")
        own = [record for record in records if record["part"] == part.name]
        print("\n".join(table(own)), flush=True)


if __name__ == "__main__":
    main()
