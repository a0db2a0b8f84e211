"""Measure the findings, compare them with the stored ones, or write their page.

    python -m benchmarks.artifact fetch DIR [--clones DIR]
    python -m benchmarks.artifact run --traces DIR [--parts NAME,...] [--test] [--write]
    python -m benchmarks.artifact check --traces DIR [--parts NAME,...]
    python -m benchmarks.artifact page

``fetch`` brings the public traces into a folder by git, or from clones where there is no network.
``run`` measures on the samples that choices may be made with; with ``--test`` on the test's, which
is done once, after the last choice. ``--write`` stores values and day in ``values.json``. ``check``
measures all that is stored again and says how many of how many values come out the same. ``page``
writes docs/findings.md and README's table.
"""

import argparse
import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import moeopt
from benchmarks.artifact.fetch import fetch
from benchmarks.artifact.measures import MEASURES, Found
from benchmarks.artifact.samples import SEED, Part, spread

STORED = Path(__file__).with_name("values.json")
TEMPLATE = Path(__file__).with_name("findings.md.jinja")
PAGE = Path(__file__).parents[2] / "docs" / "findings.md"
README = Path(__file__).parents[2] / "README.md"
BATCHES = "<!-- batches: begin -->", "<!-- batches: end -->"
SYSTEMS = {
    "trimoe": "TriMoE",
    "trimoe knowing": "TriMoE, if it knew the loads",
    "ktransformers": "KTransformers",
    "monde": "MoNDE",
    "klotski": "Klotski",
}
"""Quantity of the measure by batch -> how README calls it."""
FRONT = "<!-- front table: begin -->", "<!-- front table: end -->"
DIGITS = 6
"""After the point, of what is stored and compared."""


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["fetch", "run", "check", "page"])
    parser.add_argument("folder", type=Path, nargs="?", help="of fetch")
    parser.add_argument("--clones", type=Path)
    parser.add_argument("--traces", type=Path)
    parser.add_argument("--parts", default=",".join(MEASURES))
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    names = arguments.parts.split(",")
    if unknown := set(names) - set(MEASURES):
        parser.error(f"--parts: {', '.join(unknown)}: known are {', '.join(MEASURES)}")
    if arguments.what == "fetch":
        if arguments.folder is None:
            parser.error("fetch: needs a folder")
        fetch(arguments.folder, arguments.clones)
        return
    if arguments.what == "page":
        PAGE.write_text(page(PAGE.read_text()))
        README.write_text(readme(README.read_text()))
        return
    if arguments.traces is None:
        parser.error(f"{arguments.what}: needs --traces DIR")
    try:
        if arguments.what == "check":
            raise SystemExit(not check(names, arguments.traces))
        for name in names:
            run(name, "test" if arguments.test else "choice", arguments.traces, arguments.write)
    except moeopt.InputError as error:
        parser.error(str(error))


def run(name: str, part: Part, traces: Path, write: bool) -> None:
    """Measure a part, print it, and store it if asked for."""
    begin = time.process_time()
    found = rounded(MEASURES[name](traces, part))
    seconds = time.process_time() - begin
    print(f"{name} ({part}, {seconds:.0f} CPU s)")
    for group, values in found.items():
        for quantity in dict.fromkeys(key for one in values.values() for key in one):
            seen = spread(values, quantity)
            most = f"at most {100 * seen.most:.1f} %"
            print(f"  {group}: {quantity}: {seen.percent(1)}, {most}, {seen.samples} samples")
    if write:
        stored = read()
        day = datetime.now(UTC).date().isoformat()
        stored.setdefault(name, {})[part] = {"day": day, "cpu_s": round(seconds), "values": found}
        STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n")


def check(names: list[str], traces: Path) -> bool:
    """Measure again what is stored; say of each part, as it ends, how much comes out the same."""
    same = total = 0
    for name in names:
        for part, stored in read().get(name, {}).items():
            begin = time.process_time()
            now = flat(rounded(MEASURES[name](traces, part)))
            seconds = time.process_time() - begin
            was = flat(stored["values"])
            differ = [key for key in (was | now) if was.get(key) != now.get(key)]
            for key in differ:
                print(f"  {', '.join(key)}: {was.get(key)}, now {now.get(key)}")
            alike = len(was | now) - len(differ)
            print(
                f"{name} ({part}, {seconds:.0f} CPU s, {stored['cpu_s']} when stored): "
                f"{alike} the same, {len(differ)} differ",
                flush=True,
            )
            same, total = same + alike, total + len(was | now)
    print(f"{same} of {total} values come out the same")
    return same == total


def flat(found: Found) -> dict[tuple[str, str, str], float]:
    """Return values by group, sample and quantity."""
    return {
        (group, sample, quantity): value
        for group, samples in found.items()
        for sample, values in samples.items()
        for quantity, value in values.items()
    }


def page(old: str) -> str:
    """Return the findings' page: the template with what is stored, and the old page's front table.

    That table is the library's, and another command prints it.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    stored = read()
    begin, end = FRONT
    front = old[old.index(begin) : old.index(end) + len(end)]

    def of(part: Part) -> Callable[..., str]:
        def shown(name: str, group: str, quantity: str, digits: int = 0) -> str:
            values = stored[name][part]["values"][group]
            return spread(values, quantity).percent(digits).replace("[-0,", "[0,")

        return shown

    def samples(name: str, group: str) -> int:
        return len(stored[name]["choice"]["values"][group])

    # The text is Markdown of our own: nothing in it comes from strangers.
    environment = Environment(
        loader=FileSystemLoader(TEMPLATE.parent), undefined=StrictUndefined, trim_blocks=True
    )
    return (
        environment.get_template(TEMPLATE.name)
        .render(
            p=of("choice"),
            t=of("test"),
            n=samples,
            seed=SEED,
            cpu_s=sum(one["cpu_s"] for parts in stored.values() for one in parts.values()),
            test_day=min(parts["test"]["day"] for parts in stored.values()),
            copies_day=stored["expert-copies"]["test"]["day"],
            front_table=front,
        )
        .rstrip()
        + "\n"
    )


def readme(old: str) -> str:
    """Return README with the table of systems by batch that is stored."""
    values = read()["batches"]["choice"]["values"]
    values = {batch: values[batch] for batch in sorted(values, key=int)}
    lines = [f"| excess | {' | '.join(f'{batch} tokens' for batch in values)} |"]
    lines.append("|---|" + "---:|" * len(values))
    for quantity, name in SYSTEMS.items():
        cells = (spread(of, quantity).percent() for of in values.values())
        lines.append(f"| {name} | {' | '.join(cells)} |")
    begin, end = (old.index(mark) for mark in BATCHES)
    return old[: begin + len(BATCHES[0])] + "\n" + "\n".join(lines) + "\n" + old[end:]


def rounded(found: Found) -> Found:
    """Return values to as many digits as are compared."""
    return {
        group: {
            sample: {key: round(value, DIGITS) for key, value in values.items()}
            for sample, values in of.items()
        }
        for group, of in found.items()
    }


def read() -> dict[str, Any]:
    """Return what is stored."""
    return json.loads(STORED.read_text()) if STORED.is_file() else {}


if __name__ == "__main__":
    main()
