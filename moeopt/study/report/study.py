"""What a report is made from: rows, the instances they are about, failures, and the command."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from moeopt.core.envelope import InstanceEnvelope
from moeopt.problems.registry import get_problem
from moeopt.solvers.methods import problem_methods
from moeopt.solvers.rules import AUTO
from moeopt.study.attempt import Failure
from moeopt.study.campaign import repeats
from moeopt.study.plan import Key
from moeopt.study.rows import TOLD, Row, each_once, labels
from moeopt.study.store import Store


@dataclass(frozen=True)
class Study:
    """All that a report shows: rows, their instances by content hash, and solves without a result.

    `command` makes the report again; `assumed` has (problem, method as tables call it) -> its
    median excess over the papers' assumptions.
    """

    rows: Sequence[Row]
    instances: dict[str, InstanceEnvelope] = field(default_factory=dict)
    failures: Sequence[tuple[Key, Failure]] = ()
    command: str = ""
    assumed: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[Row],
        store: Store,
        command: str,
        assumed: Mapping[tuple[str, str], str] | None = None,
    ) -> "Study":
        """Add to rows what their store knows about them; heuristics come before exact methods."""
        rows = sorted(rows, key=lambda row: is_exact(row.result.problem, row.key.method))
        hashes = dict.fromkeys(row.key.instance for row in rows)
        failures = store.failures()
        hashes |= dict.fromkeys(key.instance for key, _ in failures)
        instances = {digest: store.instance(digest) for digest in hashes}
        return cls(rows, instances, failures, command, assumed or {})

    @property
    def problems(self) -> dict[str, list[Row]]:
        """Problem -> its rows, each solve once; repeated experiments left out, if others remain."""
        again = {digest for digest, one in self.instances.items() if repeats(one) is not None}
        return each_once(self.rows, lambda row: row.key.instance in again)

    def name_of(self, content_hash: str) -> str:
        """Return an instance's name."""
        instance = self.instances.get(content_hash)
        return content_hash[:12] if instance is None else instance.name

    @property
    def labels(self) -> dict[Key, str]:
        """What each solve is called in tables; failed ones as their method's other solves."""
        found = {row.key: label for row, label in zip(self.rows, labels(self.rows), strict=True)}
        kinds = {_kind(key): label for key, label in found.items()}
        failed = {key: kinds.get(_kind(key), key.method) for key, _ in self.failures}
        return failed | found


def _kind(key: Key) -> tuple[object, ...]:
    return (key.method, *(getattr(key, name) for name in TOLD))


def is_exact(problem: str, method: str) -> bool:
    """Tell whether a method can prove; one that no longer exists counts as a heuristic."""
    found = problem_methods(get_problem(problem)).get(method)
    return method == AUTO or (found is not None and found.kind == "exact")


def own_heuristic(problem: str, rows: Sequence[Row]) -> tuple[str, str] | None:
    """Return the published heuristic and its paper, else the first heuristic with an empty paper.

    None where the rows have no heuristic.
    """
    methods = dict.fromkeys(row.key.method for row in rows)
    home = get_problem(problem)
    if home.published in methods:
        return home.published, home.paper
    return next(((name, "") for name in methods if not is_exact(problem, name)), None)
