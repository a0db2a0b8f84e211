"""Certificates for the proven instances of the library: which can have one, how large, how long.

``python -m benchmarks.studies.library_certificates [PROBLEM ...] [--seconds S] [--only TEXT]``

makes a certificate of each proven instance that has none, by linear relaxations and branching
(`moeopt.certificates.forms`), and enters those that prove the optimum. Why the others have none
goes into ``instances/without_certificate.csv``. `--check` makes nothing: it checks those that are
there with ``certificate.py`` and prints a table.
"""

import argparse
import csv
import json
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.rooms.certificates import (
    Model,
    RefusedError,
    best_certificate,
    neutral_model,
    read,
    verify,
)
from benchmarks.rooms.problems import get_problem
from instances.tools.entries import Entry, entries_of, instance_of, problem_folders, write_best
from instances.tools.submissions import certificate_place
from moeopt import InputError, MoeoptError, save

LIBRARY = Path(__file__).parents[2] / "instances"
MISSING = LIBRARY / "without_certificate.csv"


class _TooLongError(Exception):
    """An instance took longer than `--seconds`."""


@contextmanager
def _at_most(seconds: int) -> Iterator[None]:
    """Give up after so many CPU seconds: building a large model knows no limit."""

    def stop(*_: object) -> None:
        raise _TooLongError

    signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)


def make(entry: Entry, nodes: int, seconds: int) -> str:
    """Certify an instance and enter the certificate if it proves the optimum; say what happened."""
    begin = time.process_time()
    try:
        with _at_most(seconds):
            instance = instance_of(entry)
            packing = get_problem(entry.problem).packing(instance)
            optimum = packing.pack(entry.objective)
            found = best_certificate(instance, optimum, 3600.0, nodes, exact=False)
    except _TooLongError:
        return f"took longer than {seconds} CPU s"
    except MoeoptError as error:
        return f"failed: {str(error)[:80]}"
    if found["bound"] < optimum:
        return f"open by {100 * (optimum - found['bound']) / optimum:.3f} %"
    place = certificate_place(entry.key)
    file = entry.folder / place
    file.parent.mkdir(parents=True, exist_ok=True)
    save(found, file)
    write_best(entry.folder, entry.key, dict(entry.fields) | {"certificate": place})
    size = sum(len(part["tree"]) for part in found.get("parts", [found]))
    return f"proven with {size} nodes, {time.process_time() - begin:.1f} CPU s"


def reasons() -> dict[tuple[str, str], str]:
    """Return why a proven instance has no certificate, by problem and instance."""
    with MISSING.open(newline="", encoding="utf-8") as file:
        return {(row["problem"], row["instance"]): row["reason"] for row in csv.DictReader(file)}


def record(problem: str, key: str, said: str) -> None:
    """Enter why an instance has no certificate, or that it has one now."""
    rows = reasons()
    rows[problem, key] = said
    if said.startswith("proven"):
        del rows[problem, key]
    with MISSING.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["problem", "instance", "reason"])
        writer.writerows([*place, why] for place, why in sorted(rows.items()))


def check(folder: Path) -> tuple[int, int, list[float], list[int], list[str]]:
    """Check a problem's certificates; return proven, certified, CPU seconds, bytes, faults."""
    proven = [entry for entry in entries_of(folder) if entry.fields["status"] == "optimal"]
    seconds, sizes, faults = [], [], []
    for entry in proven:
        if "certificate" not in entry.fields:
            continue
        file = folder / entry.fields["certificate"]
        try:
            data = read(file)
            model = Model(neutral_model(instance_of(entry), data.get("form")).data)
            begin = time.process_time()
            verify(model, data)
            seconds.append(time.process_time() - begin)
            sizes.append(file.stat().st_size)
        except (InputError, RefusedError) as error:
            faults.append(f"{entry.key}: {error}")
    return len(proven), len(seconds), seconds, sizes, faults


def main() -> None:
    """Make or check certificates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("problems", nargs="*")
    parser.add_argument("--nodes", type=int, default=12_001)
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--only", default="", help="instances whose file has this in its name")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    folders = [f for f in problem_folders(LIBRARY) if f.name in (options.problems or [f.name])]
    if options.check:
        print(
            "| problem | proven | certified | check, median, most CPU s | size, median, most KiB |"
        )
        print("|---|---:|---:|---:|---:|")
        for folder in folders:
            proven, count, seconds, sizes, faults = check(folder)
            times = f"{median(seconds):.2f} / {max(seconds):.2f}" if seconds else "-"
            kib = f"{median(sizes) / 1024:.1f} / {max(sizes) / 1024:.1f}" if sizes else "-"
            print(f"| {folder.name} | {proven} | {count} | {times} | {kib} |", flush=True)
            for fault in faults:
                print(json.dumps(fault))
        return
    for folder in folders:
        for entry in entries_of(folder):
            proven = entry.fields["status"] == "optimal"
            if proven and "certificate" not in entry.fields and options.only in entry.key:
                said = make(entry, options.nodes, options.seconds)
                record(folder.name, entry.key, said)
                print(f"{folder.name}/{entry.key}: {said}", flush=True)


if __name__ == "__main__":
    main()
