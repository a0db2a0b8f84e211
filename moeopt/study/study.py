"""Run methods on instances and hold each against the best that is known."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, nullcontext
from pathlib import Path
from types import NoneType

import pandas as pd

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError, expect
from moeopt.core.logs import logger_of
from moeopt.core.signals import signals_wait
from moeopt.problems.registry import get_problem
from moeopt.solvers.arguments import MAX_WORKERS, a_function, integer
from moeopt.solvers.methods import method_kind
from moeopt.study.attempt import Executor, Here, Watch, execute
from moeopt.study.campaign import Campaign, Choice, Part, Source, make_settings
from moeopt.study.frame import bracket_of, frame_of
from moeopt.study.gap_table import GapTable
from moeopt.study.later_loads import asked_in_hindsight
from moeopt.study.plan import Job, Jobs, make_plan, words_for_others
from moeopt.study.record import SolveRecord
from moeopt.study.schema import MEMORY
from moeopt.study.store import Store

logger = logger_of(__name__)


def gap(
    paths: Source | Iterable[Source],
    methods: Sequence[Choice] | None = None,
    *,
    time_limit_s: float | None = None,
    work_limit: float | None = None,
    seed: int = 0,
    workers: int = 1,
    on_start: Callable[[int, int, str, str], None] | None = None,
    store: str | Path | Store | None = None,
    resume: bool = False,
    jobs: int = 1,
    executor: str | None = None,
    watch: Watch | None = None,
    prove_again: bool = False,
) -> GapTable:
    """Run methods on instances and report how far each is above the optimum.

    Parameters
    ----------
    paths
        An instance file, a folder to search for them, an instance, or a list of these.
    methods
        Names of methods; by default every heuristic of the problem. "heuristics" and "exact" stand
        for all of a kind (without brute-force), "published" for the rule of the problem's paper. A
        custom heuristic is a function from an instance to a solution, or to a pair ``(solution,
        bound)`` with a lower bound that counts as its claim, or its place: ``FILE.py:function``,
        ``package.module:function``. No limit ends a function; one that is named by its place is
        ended at the limit. Where no exact method is among them, the
        problem's first exact method is added: without an optimum there is no excess.
    time_limit_s, work_limit, seed, workers
        Of each solve, as in `moeopt.solve`.
    on_start
        Called with (solves done, solves in all, instance, method) before each solve.
    store, resume, jobs, executor, watch
        As in `run_campaign`.
    prove_again
        Whether exact methods run also where the library that a file stands in has a proven optimum,
        whose entry in ``best_known.json`` holds (`moeopt.study.known`).

    Returns
    -------
    GapTable
        A row for each solve, instance by instance and method by method in the order given. It can
        be iterated and indexed; `GapTable.to_frame` gives a pandas frame. An instance that is given
        twice in one family gets its rows once. After Ctrl-C: what was solved so far.

    Raises
    ------
    InputError
        If a file or method cannot be used, or a folder holds no instance.
    MoeoptError
        If a solve fails and `watch` does not let the campaign go on. A custom heuristic that
        fails is a row with the status "failed" instead; `raw_status` says why.

    Examples
    --------
    >>> import moeopt
    >>> table = moeopt.gap(
    ...     "instances/tri_domain/esft-window/window-law-layer4-batch256.json",
    ...     methods=["trimoe", "threshold"],
    ... )
    >>> print(f"{table[0].method}: {table[0].excess:.0%} above the optimum")
    trimoe: 33% above the optimum
    """
    if isinstance(paths, str | Path | InstanceEnvelope):
        paths = [paths]
    expect("paths", paths, Iterable, what="a path, an instance or a list of them")
    sources = list(paths)
    for number, source in enumerate(sources):
        what = "a path or an instance"
        expect(f"paths[{number}]", source, str, Path, InstanceEnvelope, what=what)
    settings = make_settings(
        methods=methods,
        time_limits_s=None if time_limit_s is None else [time_limit_s],
        work_limits=None if work_limit is None else [work_limit],
        seeds=[seed],
        workers=workers,
        prove_again=prove_again,
    )
    frame = run_campaign(
        Campaign([Part(sources, settings)]),
        on_start=on_start,
        store=store,
        resume=resume,
        jobs=jobs,
        executor=executor,
        watch=watch,
    )
    return GapTable(frame)


def run_campaign(
    campaign: Campaign,
    *,
    on_start: Callable[[int, int, str, str], None] | None = None,
    store: str | Path | Store | None = None,
    resume: bool = False,
    jobs: int = 1,
    executor: str | None = None,
    watch: Watch | None = None,
) -> pd.DataFrame:
    """Make all solves of a campaign and return a row for each.

    Parameters
    ----------
    campaign
        From `read_campaign`, or made in code.
    store
        A file, made if need be, that keeps every result; None keeps them in memory.
    resume
        Go on with a store that holds some of the solves; they are not made again.
    jobs
        Solves at once, each in a process of its own; 1 solves in this process.
    executor
        ``dask://HOST:PORT``: solve on a Dask cluster instead.
    watch
        Told of everything that happens. By default a failed solve raises its error.

    Returns
    -------
    pandas.DataFrame
        Instance by instance, as in `gap`, with the columns of `moeopt.study.frame`. Optimum and
        bound come from all results that the store
        has for the instance, and from its library.

    Raises
    ------
    InputError
        As in `gap`; or if the store cannot be used, or holds some of the solves and `resume` is
        False.
    """
    expect("store", store, str, Path, Store, NoneType, what="a path or a store")
    expect("executor", executor, str, NoneType, what="dask://HOST:PORT")
    expect("watch", watch, Watch, NoneType, what="a Watch")
    jobs = integer("jobs", jobs, 1, MAX_WORKERS)
    a_function("on_start", on_start)
    plan = make_plan(campaign)
    watch = watch or Watch()
    opened = nullcontext(store) if isinstance(store, Store) else Store(store or MEMORY)
    with opened as results:
        total, todo = _still_to_do(plan, results)
        if jobs != 1 or executor is not None:
            todo.sort(key=_longest_first)
        run = _Run(results, watch, total - len(todo), total, on_start)
        if run.done and not resume:
            raise InputError(
                f"{results.path}: holds {run.done} of these {run.total} solves already; "
                "--resume (resume=True) goes on with the others"
            )
        logger.info("campaign: %d solves, of which %d are stored", run.total, run.done)
        results.enroll(plan.entries)
        watch.planned(run.total, run.done)
        watch.spared(plan.spared, plan.doubts)
        for rule in plan.rules:
            if jobs != 1 or executor is not None:
                words_for_others(rule)
            if store is not None and rule.source_sha256 is None:
                raise InputError(
                    f"{rule.name}: has no source file, so that a store could not tell whether it "
                    "is still the same"
                )
        try:
            if todo:
                with closing(_executor(jobs, len(todo), executor, watch)) as place:
                    execute(place, run.not_stored(todo), run.start, run.end)
                    if store is not None:  # a report will ask for them
                        execute(place, _in_hindsight(plan, results), run.unseen, run.keep)
        except KeyboardInterrupt:
            watch.interrupted()
        return _frame(plan, results)


def _still_to_do(plan: Jobs, store: Store) -> tuple[int, list[Job]]:
    """Return how many solves there are, and those that the store does not have."""
    total, todo = 0, []
    hashes = {entry.instance_hash for entry in plan.entries}
    done = {digest: store.done(digest) for digest in hashes}
    for job in plan.jobs():
        total += 1
        if job.key not in done[job.instance_hash]:
            todo.append(job)
    return total, todo


def _longest_first(job: Job) -> tuple[bool, float]:
    """Order solves so that no long one is left to the end: exact methods may take all their time.

    Else they stay in order: those of an instance go to the same process one after the other.
    """
    problem = get_problem(job.instance.problem)
    exact = job.rule is None and method_kind(problem, job.method) == "exact"
    return not exact, -(job.time_limit_s or 0.0)


class _Run:
    """The bookkeeping of one campaign: what is started, what is kept, who is told."""

    def __init__(
        self,
        store: Store,
        watch: Watch,
        done: int,
        total: int,
        on_start: Callable[[int, int, str, str], None] | None,
    ) -> None:
        self._store = store
        self._watch = watch
        self._on_start = on_start
        self.done = done
        self.total = total

    def not_stored(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield the jobs that no other process has stored by the time it is their turn."""
        for job in jobs:
            if self._store.has(job.key):
                self.done += 1
                self._watch.skipped(job)
            else:
                yield job

    def unseen(self, job: Job) -> None:
        """Tell nobody of a solve that is not of the campaign's own."""

    def start(self, job: Job) -> None:
        """Tell that a solve starts."""
        if self._on_start:
            self._on_start(self.done, self.total, job.instance.name, job.method)
        self._watch.started(job)

    def end(self, job: Job, record: SolveRecord) -> None:
        """Keep a result or a failure and tell of it; Ctrl-C waits until both are done."""
        with signals_wait():
            self._store.add(record)
            self._tell(job, record)
        _interrupt_if(record)

    def keep(self, _: Job, record: SolveRecord) -> None:
        """Keep how a solve ended that is not of the campaign's own."""
        with signals_wait():
            self._store.add(record)
        _interrupt_if(record)

    def _tell(self, job: Job, record: SolveRecord) -> None:
        self.done += 1
        what = self.done, self.total, job.instance.name, job.method
        if record.failed:
            logger.info("%d of %d: %s, %s: failed: %s", *what, record.raw_status)
            self._watch.failed(job, record)
            return
        said = record.status, record.objective, record.bound, record.build_s + record.solve_s
        logger.info("%d of %d: %s, %s: %s, objective %s, bound %s, %.3f s", *what, *said)
        self._watch.solved(job, record)


def _interrupt_if(record: SolveRecord) -> None:
    """Go on with the Ctrl-C that a solve answered by giving what it had."""
    if record.termination == "interrupted":
        raise KeyboardInterrupt


def _executor(jobs: int, solves: int, address: str | None, watch: Watch) -> Executor:
    """Return where solves are made; what an executor needs is imported only if it is used."""
    if address is not None:
        from moeopt.study.cluster import Cluster

        return Cluster(address, watch)
    if jobs == 1:
        return Here(watch)
    from moeopt.study.pool import Pool

    return Pool(min(jobs, solves), watch)


def _in_hindsight(plan: Jobs, store: Store) -> list[Job]:
    """Return the solves that a report asks for beside the campaign's, and that are not stored.

    They come at the end: which ones they are depends on what is proven.
    """
    asked = {job.key: job for job in asked_in_hindsight(_frame(plan, store), store)}
    return [job for job in asked.values() if not store.has(job.key)]


def _frame(plan: Jobs, store: Store) -> pd.DataFrame:
    """Return the campaign's solves against the best that the store and libraries know."""
    solved = {digest: store.records(digest) for digest in {e.instance_hash for e in plan.entries}}
    brackets = {
        digest: bracket_of(records, store.known(digest)) for digest, records in solved.items()
    }
    by_key = {record.key: record for records in solved.values() for record in records}
    rows = [
        (entry.family, entry.tags, by_key[job.key])
        for entry in plan.entries
        for job in entry.jobs
        if job.key in by_key
    ]
    return frame_of(rows, brackets)
