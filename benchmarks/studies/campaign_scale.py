"""What a campaign on a Dask cluster costs beside its solves: scheduling, memory, storing.

    python benchmarks/studies/campaign_scale.py [--instances N] [--workers N]

Scheduler and workers are processes of their own on this machine. Figures are printed as a Markdown
table. Instances are 16 of the 64 experts of one of the library, drawn anew for each, as files in a
folder that is made and removed.
"""

import argparse
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import psutil

import moeopt
from benchmarks.rooms.study import (
    Campaign,
    Job,
    Part,
    SolveRecord,
    Watch,
    attempt,
    make_plan,
    make_settings,
    run_campaign,
)

BASE = Path(__file__).parents[2] / "instances/tri_domain/esft-window"
FROM = "window-law-layer4-batch256.json"
EXPERTS = 16
METHODS = ("trimoe", "threshold")

CLUSTER = """
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    workers = int(sys.argv[1])
    with LocalCluster(
        n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
        silence_logs=50,
    ) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""

Figures = list[tuple[str, str]]


def write_instances(folder: Path, count: int) -> None:
    """Write small instances into a folder; the same for the same count."""
    base = moeopt.load(BASE / FROM)
    data = base.model_dump(mode="json") | {"provenance": None}
    rng = random.Random(24)
    for number in range(count):
        experts = rng.sample(data["experts"], EXPERTS)
        made = type(base).model_validate(data | {"experts": experts, "name": f"small-{number}"})
        moeopt.save(made, folder / f"{number:06}.json")


def campaign_of(folder: Path) -> Campaign:
    """Return the campaign of all instances of a folder."""
    return Campaign([Part([folder], make_settings(METHODS, [60.0], [0], 1))])


@dataclass
class Noted(Watch):
    """Adds up what solves took, and keeps the moment of the first one and of the last one."""

    seconds: float = 0.0
    solves: int = 0
    failures: list[str] = field(default_factory=list)
    first: float | None = None
    last: float = 0.0

    def started(self, job: Job) -> None:
        """Keep when the first solve was handed out."""
        self.first = self.first or perf_counter()

    def solved(self, job: Job, record: SolveRecord) -> None:
        """Count."""
        self.solves += 1
        self.seconds += record.build_s + record.solve_s
        self.last = perf_counter()

    def failed(self, job: Job, record: SolveRecord) -> None:
        """Go on."""
        self.failures.append(record.raw_status)


@contextmanager
def cluster(workers: int) -> Iterator[tuple[str, psutil.Process]]:
    """Start a scheduler and workers; give the address and the scheduler's process."""
    process = subprocess.Popen(
        [sys.executable, "-c", CLUSTER, str(workers)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        address = process.stdout.readline().strip() if process.stdout else ""
        yield address.replace("tcp://", "dask://"), psutil.Process(process.pid)
    finally:
        process.communicate("\n", timeout=60)


class Memory(threading.Thread):
    """Reads the resident memory of this process, a scheduler and its workers, once a second."""

    def __init__(self, scheduler: psutil.Process) -> None:
        super().__init__(daemon=True)
        self._scheduler = scheduler
        self._over = threading.Event()
        self.seen: list[tuple[float, float, float, float]] = []

    def run(self) -> None:
        """Read until :meth:`end`."""
        while not self._over.wait(1.0):
            # Python's own helper processes are small: workers are those that have solved.
            workers = [p.memory_info().rss for p in self._scheduler.children(recursive=True)]
            mine = psutil.Process().memory_info().rss
            sizes = (mine, self._scheduler.memory_info().rss, max(workers, default=0))
            self.seen.append((perf_counter(), *(size / 2**20 for size in sizes)))

    def end(self) -> None:
        """Stop."""
        self._over.set()
        self.join()

    def at(self, moment: float) -> tuple[float, float, float]:
        """Return MiB of this process, the scheduler and the largest worker at a moment."""
        return min(self.seen, key=lambda one: abs(one[0] - moment))[1:]


def measure_dask(folder: Path, instances: int, workers: int) -> Figures:
    """Run the campaign on a cluster."""
    noted, file = Noted(), folder / "dask.db"
    alone = cpu_alone(folder / "family")  # before this process holds thousands of rows
    with cluster(workers) as (address, scheduler):
        memory = Memory(scheduler)
        memory.start()
        begin, cpu, away = perf_counter(), process_time(), cpu_of(scheduler)
        rows = run_campaign(
            campaign_of(folder / "family"), store=file, executor=address, watch=noted
        )
        end, cpu, away = perf_counter(), process_time() - cpu, cpu_of(scheduler) - away
        memory.end()
    if noted.first is None or noted.failures or len(rows) != noted.solves:
        sys.exit(f"{len(noted.failures)} solves failed: {noted.failures[:1]}")
    wall = noted.last - noted.first
    overhead_ms = 1e3 * (wall * workers - noted.seconds) / noted.solves
    shares = (0.1, 0.5, 0.9)
    sizes = [memory.at(noted.first + share * wall) for share in shares]
    told = [" / ".join(f"{size[which]:.0f}" for size in sizes) for which in range(3)]
    where = "at 10 / 50 / 90 % of the solves"
    return [
        ("instances, solves, workers", f"{instances:,}, {noted.solves:,}, {workers}"),
        ("until the first solve: files read, hashed, stored", f"{noted.first - begin:.1f} s"),
        ("all solves", f"{wall:.1f} s, {noted.solves / wall:.0f} solves/s"),
        ("a solve, by its own clock", f"{1e3 * noted.seconds / noted.solves:.2f} ms"),
        ("a worker's time beside it, per solve", f"{overhead_ms:.2f} ms"),
        ("CPU time of a solve alone", f"{1e3 * alone:.2f} ms"),
        ("CPU time of scheduler and workers, per solve", f"{1e3 * away / noted.solves:.2f} ms"),
        ("CPU time of the campaign's process, per solve", f"{1e3 * cpu / noted.solves:.2f} ms"),
        ("rows at the end", f"{end - noted.last:.1f} s"),
        (f"MiB of the campaign's process {where}", told[0]),
        (f"MiB of the scheduler {where}", told[1]),
        (f"MiB of the larger worker {where}", told[2]),
        ("bytes of the store per result", f"{file.stat().st_size / noted.solves:.0f}"),
    ]


def cpu_of(parent: psutil.Process) -> float:
    """Return the CPU seconds of a process and of those that it has started."""
    times = [one.cpu_times() for one in [parent, *parent.children(recursive=True)]]
    return sum(one.user + one.system for one in times)


def cpu_alone(folder: Path, count: int = 200) -> float:
    """Return the CPU seconds of a solve in this process, nothing around it."""
    jobs = list(islice(make_plan(campaign_of(folder)).jobs(), count))
    for job in jobs[: len(METHODS)]:
        attempt(job)
    begin = process_time()
    for job in jobs:
        attempt(job)
    return (process_time() - begin) / len(jobs)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--instances", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    a = parser.parse_args()
    print(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f} at the start\n")
    print("| what | measured |\n|---|---|")
    with TemporaryDirectory() as scratch:
        family = Path(scratch) / "family"
        family.mkdir()
        write_instances(family, a.instances)
        for what, value in measure_dask(Path(scratch), a.instances, a.workers):
            print(f"| {what} | {value} |")


if __name__ == "__main__":
    main()
