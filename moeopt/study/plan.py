"""A campaign written out: every solve it asks for, each with the key it is stored under."""

import hashlib
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.metadata import version as version_of
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import Method, get_method, problem_methods
from moeopt.solvers.rules import AUTO, Rule, load_rule, rule_names, rule_of
from moeopt.study.campaign import MOST_SOLVES, Campaign, Choice, Loaded, Settings, Source, load_all
from moeopt.study.known import Known, Libraries
from moeopt.study.tags import tags_of

GROUPS = ("heuristics", "published", "exact")
"""Names that stand for several methods of a problem."""

NO_SOURCE = "unknown"
"""Stands for the hash of a rule's source file where there is none, as in an interactive session."""


@cache
def our_version() -> str:
    """Return moeopt's version; reading it takes longer than some solves."""
    return version_of("moeopt")


@dataclass(frozen=True, slots=True)
class Job:
    """One solve to be made.

    Attributes
    ----------
    instance, instance_hash
        What is solved, and the SHA-256 of its content.
    method
        The method's name; that of `rule` where it is a custom heuristic.
    seed, time_limit_s, work_limit, workers
        As in `moeopt.solve`; None where there is no such limit.
    options
        What else `moeopt.solve` is called with: engine, warm_start.
    rule
        A custom heuristic; for another process the words that `load_rule` makes it of there.
    source_sha256
        SHA-256 of the file that the custom heuristic stands in, so that an edited one is solved
        again; empty for moeopt's methods.
    version
        The version of moeopt that asks.
    key
        What the solve is known by: two jobs with the same key ask the same. The version is no part
        of it.
    """

    instance: InstanceEnvelope
    instance_hash: str
    method: str
    seed: int = 0
    time_limit_s: float | None = None
    work_limit: float | None = None
    workers: int = 1
    options: Mapping[str, str | bool] = field(default_factory=dict)
    rule: Rule | str | None = None
    source_sha256: str = ""
    version: str = field(default_factory=our_version)
    key: str = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        asked = [self.instance_hash, self.method, self.source_sha256, self.seed, self.time_limit_s]
        asked += [self.work_limit, self.workers, sorted(self.options.items())]
        key = hashlib.sha256(json.dumps(asked).encode()).hexdigest()
        object.__setattr__(self, "key", key)

    @property
    def asked(self) -> dict[str, Any]:
        """What a record repeats of the question."""
        return {
            "key": self.key,
            "problem": self.instance.problem,
            "instance": self.instance.name,
            **{name: getattr(self, name) for name in ASKED},
            "options": dict(self.options),
        }

    def portable(self) -> "Job":
        """Return the job as another process can take it.

        Raises
        ------
        InputError
            If its custom heuristic is a function that other processes cannot load.
        """
        if not isinstance(self.rule, Rule):
            return self
        return replace(self, rule=words_for_others(self.rule))


ASKED = (
    *("instance_hash", "method", "seed", "time_limit_s", "work_limit", "workers"),
    *("source_sha256", "version"),
)


def words_for_others(rule: Rule) -> str:
    """Return what `load_rule` makes a rule of in another process.

    Raises
    ------
    InputError
        If other processes cannot load it.
    """
    if rule.spec is not None:
        return rule.spec
    function, path = rule.function, rule.source_path
    name = getattr(function, "__qualname__", "")
    module = sys.modules.get(getattr(function, "__module__", None) or "")
    if path is not None and name.isidentifier() and getattr(module, name, None) is function:
        return f"{path}:{name}"
    raise InputError(
        f"{rule.name}: other processes cannot load it; it must be a function of a file, under its "
        "own name"
    )


@dataclass(frozen=True)
class Entry:
    """One instance of one family with its jobs in order, what its library knows, and its tags."""

    family: str
    instance_hash: str
    instance: InstanceEnvelope
    jobs: Sequence[Job]
    known: Known | None = None

    @property
    def tags(self) -> dict[str, str]:
        """What is said of every solve of the instance: whose loads, under which assumptions."""
        return tags_of(self.instance)


@dataclass(frozen=True)
class Jobs:
    """What a campaign comes to. An instance that stands in several families is solved once.

    Attributes
    ----------
    rules
        The custom heuristics among the methods.
    spared
        Solves by exact methods that are left out: their instances' optima are proven already.
    doubts
        Why what a library says of an instance is not used, a line each.
    """

    entries: Sequence[Entry]
    rules: Sequence[Rule] = ()
    spared: int = 0
    doubts: Sequence[str] = ()

    def jobs(self) -> Iterator[Job]:
        """Yield every solve once, in order."""
        families = Counter(entry.instance_hash for entry in self.entries)
        seen: set[str] = set()
        for entry in self.entries:
            for job in entry.jobs:
                if families[entry.instance_hash] > 1:
                    if job.key in seen:
                        continue
                    seen.add(job.key)
                yield job


def content_hash(instance: InstanceEnvelope) -> str:
    """Return the SHA-256 of an instance's canonical JSON: the same for .json and .json.gz."""
    return hashlib.sha256(canonical(instance)).hexdigest()


def canonical(instance: InstanceEnvelope) -> bytes:
    """Return an instance's JSON with sorted keys and no blanks."""
    data = instance.model_dump(mode="json")
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def make_plan(campaign: Campaign) -> Jobs:
    """Load a campaign's instances and write out its solves, before anything is solved.

    Raises
    ------
    InputError
        If a file cannot be used, a method is unknown for an instance's problem, or a rule cannot be
        loaded or is for none of the problems.
    """
    found: dict[tuple[str, str], tuple[InstanceEnvelope, dict[str, Job]]] = {}
    rules: dict[tuple[str, str], Rule] = {}
    spared: set[str] = set()
    solves = 0
    sources = _Sources()
    for part in campaign.parts:
        own = _load_rules(part.settings)
        loaded = [one for source in part.sources for one in sources.load(source)]
        problems = {instance.problem for _, _, instance in loaded}
        for family, digest, instance in loaded:
            _, jobs = found.setdefault((family, digest), (instance, {}))
            known = None if part.settings.prove_again else sources.known.get(digest)
            chosen = list(_chosen(instance, part.settings, own, known))
            solves += len(chosen) * part.settings.times
            if solves > MOST_SOLVES:
                raise InputError(f"asks for more than {MOST_SOLVES:,} solves", field="campaign")
            for job, is_spared in _jobs(instance, digest, part.settings, chosen):
                if is_spared:
                    spared.add(job.key)
                    continue
                if isinstance(job.rule, Rule):
                    first = rules.setdefault((job.method, job.source_sha256), job.rule)
                    if first.spec is None:  # registered in this process, and loaded from a file
                        rules[job.method, job.source_sha256] = job.rule
                jobs.setdefault(job.key, job)
        for rule in own.values():
            if rule.problem is not None and rule.problem not in problems:
                raise InputError(f"{rule.name}: a rule for {rule.problem}, of which there is none")
    entries = [
        Entry(*where, instance, list(jobs.values()), sources.known.get(where[1]))
        for where, (instance, jobs) in found.items()
    ]
    for _, jobs in found.values():
        spared.difference_update(jobs)  # another part asks to prove again
    return Jobs(entries, list(rules.values()), len(spared), sources.doubts)


class _Sources:
    """Loads what campaigns are about, each source once, and what libraries know of it."""

    def __init__(self) -> None:
        self.known: dict[str, Known] = {}
        self.doubts: list[str] = []
        self._libraries = Libraries()
        self._loaded: dict[Path, list[tuple[str, str, InstanceEnvelope]]] = {}

    def load(self, source: Source) -> list[tuple[str, str, InstanceEnvelope]]:
        """Return (family, content hash, instance) of all that a source holds."""
        if isinstance(source, InstanceEnvelope):
            return [self._hashed(one) for one in load_all(source)]
        path = Path(source).absolute()  # resolving would trip over what is no name
        if path not in self._loaded:
            self._loaded[path] = [self._hashed(one) for one in load_all(source)]
        return self._loaded[path]

    def _hashed(self, one: Loaded) -> tuple[str, str, InstanceEnvelope]:
        digest = content_hash(one.instance)
        if one.file is not None and digest not in self.known:
            try:
                known = self._libraries.known(one.file, one.instance)
            except InputError as error:
                self.doubts.append(str(error))
            else:
                if known is not None:
                    self.known[digest] = known
        return one.family, digest, one.instance


def _load_rules(settings: Settings) -> dict[Choice, Rule]:
    """Return the custom heuristics that the settings name; a file is run once."""
    asked = [*(settings.methods or ()), *settings.rules]
    rules: dict[Choice, Rule] = {}
    for choice in asked:
        if not isinstance(choice, str):
            rules[choice] = rule_of(choice)
        elif ":" in choice and choice not in rules:
            rules[choice] = load_rule(choice)
    return rules


class _Chosen(NamedTuple):
    """A selected method, and whether it is skipped because the optimum is known."""

    name: str
    options: Mapping[str, str | bool]
    rule: Rule | None
    spared: bool


def _jobs(
    instance: InstanceEnvelope, digest: str, settings: Settings, chosen: Sequence[_Chosen]
) -> Iterator[tuple[Job, bool]]:
    for (seconds, work), seed, one in product(settings.limits, settings.seeds, chosen):
        source = "" if one.rule is None else one.rule.source_sha256 or NO_SOURCE
        limits = seconds, work, settings.workers
        yield (
            Job(instance, digest, one.name, seed, *limits, one.options, one.rule, source),
            one.spared,
        )


def _chosen(
    instance: InstanceEnvelope,
    settings: Settings,
    own: Mapping[Choice, Rule],
    known: Known | None,
) -> Iterator[_Chosen]:
    """Yield what is meant, and one method that can prove if none can.

    What decides on copies is where copies are permitted. No exact method is needed where the
    optimum is known, and none is added where a bracket is: what it would prove in its time depends
    on the machine, the library's bracket does not.
    """
    proven = known is not None and known.proven
    bracket = known is not None and known.bound is not None
    problem = get_problem(instance.problem)
    available = problem_methods(problem)
    exact = [m for m in available.values() if m.kind == "exact" and m.backend != "brute_force"]
    needs = ((one.name, one.needs) for one in problem.heuristics if one.needs is not None)
    lacking = {name for name, field in needs if getattr(instance, field, None) is None}
    heuristics = [m for m in available.values() if m.kind == "heuristic" and m.name not in lacking]
    proves = False
    for choice in [*(settings.methods or ["heuristics"]), *settings.rules]:
        if choice == "heuristics":
            registered = [get_method(problem, name) for name in rule_names(problem.name)]
            meant = heuristics + registered
        elif choice == "published":
            meant = [get_method(problem, problem.published)]
        elif choice == "exact":
            meant = exact
        elif choice in own:
            fits = own[choice].problem in (None, problem.name)
            meant = [get_method(problem, own[choice])] if fits else []
        else:
            try:
                meant = [get_method(problem, choice)]
            except InputError as error:
                reason = f"{error.reason}; and {', '.join(GROUPS)} for several"
                parts = {"field": error.field, "suggestion": error.suggestion}
                raise InputError(reason, where=error.where, **parts) from None
        for method in meant:
            proves |= method.kind == "exact"
            name = AUTO if choice == AUTO else method.name
            spared = proven and method.kind == "exact"
            yield _Chosen(name, _options(method, settings), method.rule, spared)
    if not proves:
        yield _Chosen(exact[0].name, _options(exact[0], settings), None, bracket)


def _options(method: Method, settings: Settings) -> Mapping[str, str | bool]:
    """Return what the method takes notice of, so that the rest does not make a solve another."""
    options: dict[str, str | bool] = {}
    if settings.engine is not None and method.backend == "milp":
        options["engine"] = settings.engine
    if not settings.warm_start and method.warm_starts:
        options["warm_start"] = False
    return options
