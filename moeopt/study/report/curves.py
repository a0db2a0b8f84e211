"""Performance profiles and cactus plots, as numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from moeopt.study.plan import Key
from moeopt.study.rows import Row


@dataclass(frozen=True)
class Curve:
    """A staircase: at `x[i]` it rises to `y[i]` and stays there. Both are sorted."""

    name: str
    x: Sequence[float]
    y: Sequence[float]

    def at(self, x: float) -> float:
        """Return the height at `x`."""
        return max((y for at, y in zip(self.x, self.y, strict=True) if at <= x), default=0.0)


def profiles(
    rows: Sequence[Row], labels: Mapping[Key, str], failed: Sequence[Key] = ()
) -> list[Curve]:
    """Return for each label the share of solves that cost at most x times the optimum.

    Counted are the solves of instances with a proven optimum, failed ones and those without a
    solution as well: they are never within any factor. (Dolan and Moré, Math. Program. 91, 2002,
    with the optimum in place of the best method.)
    """
    proven = {row.key.instance for row in rows if row.optimum is not None}
    factors: dict[str, list[float]] = {}
    counted: dict[str, int] = {}
    for row in rows:
        if row.optimum is not None:
            name = labels[row.key]
            counted[name] = counted.get(name, 0) + 1
            factors.setdefault(name, []).extend([] if row.excess is None else [1 + row.excess])
    for key in failed:
        if key.instance in proven and labels[key] in counted:
            counted[labels[key]] += 1
    return [
        Curve(name, sorted(found), [(i + 1) / counted[name] for i in range(len(found))])
        for name, found in factors.items()
    ]


def proof_times(rows: Sequence[Row], labels: Mapping[Key, str]) -> list[Curve]:
    """Return for each label the number of solves that it proved optimal itself within x seconds."""
    times: dict[str, list[float]] = {}
    for row in rows:
        if row.result.status == "optimal":
            times.setdefault(labels[row.key], []).append(row.seconds)
    return [
        Curve(name, sorted(found), [float(i + 1) for i in range(len(found))])
        for name, found in times.items()
    ]
