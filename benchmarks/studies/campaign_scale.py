"""What campaigns cost beside their solves: scheduling, memory, storing, resuming, starting.

    python benchmarks/studies/campaign_scale.py [PART ...] [--instances N] [--stored N]

Parts, all by default: ``dask`` runs a campaign of N small instances on a local Dask cluster, whose
scheduler and workers are processes of their own; ``store`` writes results one by one; ``resume``
plans a campaign of which a store has all solves but one; ``start`` takes the times of a new worker.
Figures are printed as a Markdown table. Small instances are 16 of the 64 experts of one of the
library, drawn anew for each, as files in a folder that is made and removed.
"""

import argparse
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time, sleep

import psutil

import moeopt
from benchmarks.rooms.study import (
    SOLVE,
    Campaign,
    Job,
    Part,
    SolveRecord,
    Store,
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
SEEDS_RESUMED = 100

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


def campaign_of(folder: Path, seeds: Sequence[int] = (0,)) -> Campaign:
    """Return the campaign of all instances of a folder."""
    return Campaign([Part([folder], make_settings(METHODS, [60.0], list(seeds), 1))])


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


def one_result(folder: Path) -> tuple[Job, SolveRecord]:
    """Return a solve and its result."""
    job = next(make_plan(campaign_of(folder)).jobs())
    record = attempt(job)
    if record.failed:
        sys.exit(record.raw_status)
    return job, record


def measure_store(folder: Path, results: int = 5000) -> Figures:
    """Write results as campaigns do, each in a transaction of its own."""
    campaign = make_plan(campaign_of(folder / "family"))
    job, record = one_result(folder / "family")
    with Store(folder / "store.db") as store:
        store.enroll(campaign.entries)
        before = (folder / "store.db").stat().st_size
        begin = perf_counter()
        for seed in range(results):
            key = replace(job, seed=seed).key
            store.add(replace(record, key=key, seed=seed))
        seconds = perf_counter() - begin
    size = ((folder / "store.db").stat().st_size - before) / results
    return [
        ("results stored one by one", f"{results:,}: {results / seconds:,.0f} per second"),
        ("bytes of a result", f"{size:.0f}"),
    ]


def measure_resume(folder: Path, stored: int) -> Figures:
    """Fill a store with results in the writer's format; plan the campaign and make what lacks."""
    seeds = range(SEEDS_RESUMED)
    count = stored // (len(METHODS) * len(seeds))
    write_instances(folder / "many", count)
    file, campaign = folder / "many.db", campaign_of(folder / "many", seeds)
    plan = make_plan(campaign)
    with Store(file) as store:
        store.enroll(plan.entries)
        _, record = one_result(folder / "many")
        store.add(record)
    fill(file, list(plan.jobs())[:-1])
    noted = Noted()

    class EnoughError(Exception):
        """The first solve is handed out."""

    def stop(*_: object) -> None:
        raise EnoughError

    begin, cpu = perf_counter(), process_time()
    try:
        run_campaign(campaign, store=file, resume=True, watch=noted, on_start=stop)
    except EnoughError:
        seconds, cpu = perf_counter() - begin, process_time() - cpu
    else:
        sys.exit("nothing was left to be solved")
    with sqlite3.connect(file) as connection:
        [(there,)] = connection.execute("SELECT count(*) FROM solve")
    connection.close()
    return [
        ("resumed: instances, solves in the store", f"{count:,}, {there:,}"),
        ("until the first solve that lacks", f"{seconds:.1f} s wall, {cpu:.1f} s CPU"),
        ("size of that store", f"{file.stat().st_size / 2**20:.0f} MiB"),
    ]


def fill(file: Path, jobs: Sequence[Job]) -> None:
    """Copy the one result to every solve of the campaign that is asked for, in SQL."""
    own = ("key", "instance", "instance_hash", "method", "seed")
    values = ", ".join("?" if name in own else name for name in SOLVE.split(", "))
    with sqlite3.connect(file) as connection:
        connection.executemany(
            f"INSERT OR IGNORE INTO solve ({SOLVE}) SELECT {values} FROM solve WHERE id = 1",
            ([job.asked[name] for name in SOLVE.split(", ") if name in own] for job in jobs),
        )
    connection.close()


def measure_start(repeats: int = 3) -> Figures:
    """Take the time until a new process has made its first solve, and its memory then."""
    code = f"""
import time; begin = time.perf_counter()
import moeopt, psutil
instance = moeopt.load({str(BASE / FROM)!r})
for method in {METHODS!r}:
    moeopt.solve(instance, method)
print(time.perf_counter() - begin, psutil.Process().memory_info().rss / 2**20)
"""
    seen = []
    for _ in range(repeats):
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
        seen.append([float(word) for word in done.stdout.split()])
    seconds, size = (median(one[at] for one in seen) for at in (0, 1))
    return [
        ("a new process until its first results, kernels compiled before", f"{seconds:.1f} s"),
        ("its memory then", f"{size:.0f} MiB"),
    ]


PARTS = ("start", "store", "dask", "resume")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=", ".join(PARTS))
    parser.add_argument("--instances", type=int, default=20_000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--stored", type=int, default=1_000_000)
    a = parser.parse_args()
    if unknown := set(a.parts) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; known: {', '.join(PARTS)}")
    print(f"{psutil.cpu_count()} cores, load {psutil.getloadavg()[0]:.1f} at the start\n")
    print("| what | measured |\n|---|---|")
    with TemporaryDirectory() as scratch:
        folder = Path(scratch)
        (folder / "family").mkdir()
        (folder / "many").mkdir()
        if {"store", "dask"} & set(a.parts or PARTS):
            write_instances(folder / "family", a.instances)
        for part in a.parts or PARTS:
            if part == "start":
                figures = measure_start()
            elif part == "store":
                figures = measure_store(folder)
            elif part == "dask":
                figures = measure_dask(folder, a.instances, a.workers)
            else:
                figures = measure_resume(folder, a.stored)
            print("\n".join(f"| {what} | {value} |" for what, value in figures), flush=True)
            sleep(0.1)


if __name__ == "__main__":
    main()
