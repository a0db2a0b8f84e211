"""A campaign written out: every solve it asks for, each with the key it is stored under."""

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import version as version_of
from itertools import product
from typing import NamedTuple

from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import Method, get_method, problem_methods
from moeopt.study.campaign import Campaign, Settings, load_all


class Key(NamedTuple):
    """What a solve is known by: two solves with the same key ask the same.

    Attributes
    ----------
    instance
        The instance's content hash.
    options
        What else `moeopt.solve` is called with, as JSON: engine, warm_start.
    version
        The version of moeopt.
    source_sha256
        SHA-256 of the file that a rule of one's own stands in, so that an edited rule is solved
        again; empty for moeopt's methods.
    """

    instance: str
    method: str
    seed: int
    time_limit_s: float
    workers: int
    options: str
    version: str
    source_sha256: str = ""


@dataclass(frozen=True)
class Job:
    """One solve to be made."""

    key: Key
    instance: InstanceEnvelope


@dataclass(frozen=True)
class Entry:
    """One instance of one family, and the keys of its solves in order."""

    family: str
    content_hash: str
    instance: InstanceEnvelope
    keys: Sequence[Key]


@dataclass(frozen=True)
class Plan:
    """What a campaign comes to. An instance that stands in several families is solved once."""

    entries: Sequence[Entry]

    @property
    def size(self) -> int:
        """The number of rows: solves by family."""
        return sum(len(entry.keys) for entry in self.entries)

    def jobs(self) -> Iterator[Job]:
        """Yield every solve once, in order."""
        seen: set[Key] = set()
        for entry in self.entries:
            for key in entry.keys:
                if key not in seen:
                    seen.add(key)
                    yield Job(key, entry.instance)


def content_hash(instance: InstanceEnvelope) -> str:
    """Return the SHA-256 of an instance's canonical JSON: the same for .json and .json.gz."""
    return hashlib.sha256(canonical(instance)).hexdigest()


def canonical(instance: InstanceEnvelope) -> bytes:
    """Return an instance's JSON with sorted keys and no blanks."""
    data = instance.model_dump(mode="json")
    return json.dumps(data, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


@cache
def version() -> str:
    """Return moeopt's version; reading it takes longer than some solves."""
    return version_of("moeopt")


def make_plan(campaign: Campaign) -> Plan:
    """Load a campaign's instances and write out its solves, before anything is solved.

    Raises
    ------
    InputError
        If a file cannot be used, or a method is unknown for an instance's problem.
    """
    found: dict[tuple[str, str], tuple[InstanceEnvelope, dict[Key, None]]] = {}
    for part in campaign.parts:
        for family, instance in (found for source in part.sources for found in load_all(source)):
            digest = content_hash(instance)
            _, keys = found.setdefault((family, digest), (instance, {}))
            keys.update(dict.fromkeys(_keys(digest, instance, part.settings)))
    return Plan([Entry(*where, instance, list(keys)) for where, (instance, keys) in found.items()])


def _keys(digest: str, instance: InstanceEnvelope, settings: Settings) -> Iterator[Key]:
    chosen = _methods(instance, settings.methods)
    for limit, seed, method in product(settings.time_limits_s, settings.seeds, chosen):
        options = _options(method, settings)
        yield Key(digest, method.name, seed, limit, settings.workers, options, version())


def _methods(instance: InstanceEnvelope, asked: Sequence[str] | None) -> list[Method]:
    """Return the methods that are meant, and one that can prove where none of them can."""
    problem = get_problem(instance.problem)
    available = problem_methods(problem)
    exact = [m for m in available.values() if m.kind == "exact" and m.backend != "brute_force"]
    groups = {
        "heuristics": [m for m in available.values() if m.kind == "heuristic"],
        "exact": exact,
    }
    names = ["heuristics"] if asked is None else asked
    chosen = [m for name in names for m in groups.get(name) or [get_method(problem, name)]]
    if not any(method.kind == "exact" for method in chosen):
        chosen.append(exact[0])
    return chosen


def _options(method: Method, settings: Settings) -> str:
    """Return what the method takes notice of, so that the rest does not make a solve another."""
    options: dict[str, str | bool] = {}
    if settings.engine is not None and method.backend == "milp":
        options["engine"] = settings.engine
    if not settings.warm_start and method.warm_starts:
        options["warm_start"] = False
    return json.dumps(options, sort_keys=True)
