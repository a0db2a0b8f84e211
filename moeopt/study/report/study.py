"""What a report is made from: solves, the instances they are about, and the command."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from moeopt.problems.registry import get_problem
from moeopt.study.frame import as_known, each_once, exact_of, is_exact, labels
from moeopt.study.known import Known
from moeopt.study.store import Store
from moeopt.study.traits import Traits


@dataclass(frozen=True)
class Study:
    """All that a report shows: solves, and the store that has their instances.

    `command` makes the report again; `assumed` has (problem, method as tables call it) -> its
    median excess over the assumptions.
    """

    frame: pd.DataFrame
    store: Store = field(default_factory=Store)
    command: str = ""
    assumed: Mapping[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        frame: pd.DataFrame,
        store: Store,
        command: str,
        assumed: Mapping[tuple[str, str], str] | None = None,
    ) -> "Study":
        """Return the study of some solves; heuristics come before exact methods."""
        exact = exact_of(frame)
        return cls(pd.concat([frame[~exact], frame[exact]]), store, command, assumed or {})

    @cached_property
    def traits(self) -> dict[str, Traits]:
        """What the store says of the instances."""
        return self.store.traits()

    @cached_property
    def known(self) -> dict[str, Known]:
        """What libraries know of the instances."""
        return self.store.all_known()

    @cached_property
    def labelled(self) -> pd.DataFrame:
        """The solves with what tables call their methods, in a column `label`."""
        return self.frame.assign(label=labels(self.frame))

    @cached_property
    def problems(self) -> dict[str, pd.DataFrame]:
        """Problem -> its solves once each; repeated experiments left out, if others remain."""
        once = each_once(self.labelled)
        return {str(name): of for name, of in once.groupby("problem", sort=False)}

    @property
    def failures(self) -> pd.DataFrame:
        """The solves without a result."""
        return self.labelled[self.frame.failure.notna()].drop_duplicates("key")

    def optima(self, solves: pd.DataFrame) -> pd.DataFrame:
        """Return an optimal solution of each instance that has one: a solve's, or a library's."""
        own = solves[solves.optimal & solves.solution.notna()]
        both = pd.concat([own, as_known(solves, self.known)])
        return both.drop_duplicates("instance_hash").set_index("instance_hash", drop=False)


def own_heuristic(problem: str, solves: pd.DataFrame) -> tuple[str, str] | None:
    """Return the published heuristic and its paper, else the first heuristic with an empty paper.

    None where there is no heuristic.
    """
    methods = dict.fromkeys(solves.method)
    home = get_problem(problem)
    if home.published in methods:
        return home.published, home.paper
    return next(((name, "") for name in methods if not is_exact(problem, name)), None)
