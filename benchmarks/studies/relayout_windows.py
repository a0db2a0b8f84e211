"""How much migrating by predicted benefit gains, under each reading of windows, links and layout.

    python benchmarks/studies/relayout_windows.py [--families small-batch,paper-scale]
        [--time-limit S]

The instances of the families are made anew under one settlement after the other, from what their
provenance says; the last rows change several. Prints one Markdown row per reading: excess of the
policies over the proven optimum, median / maximum, and by how much the policy's makespan is below
that of no migration, median (and on how many instances it is above). A row counts the instances
whose optimum is proven within the limit.
"""

import argparse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import moeopt
from benchmarks.rooms.relayout import HEURISTICS, Instance, objective, resettled

LIBRARY = Path(__file__).parents[2] / "instances" / "relayout"
POLICIES = ("benefit-greedy", "benefit-makespan", "rebalance-only", "none")

OFFLINE = {"layout_from": "offline trace", "dimm_choice": "balanced"}
FAIR = OFFLINE | {"windows": "one", "cold_cut": "tokens 0.08"}
READINGS: dict[str, dict[str, str]] = {
    "as it was: two windows, one link, 70 % localized on an earlier step": {},
    "one window": {"windows": "one"},
    "a link per DIMM": {"link_sum": "per link"},
    "one window, a link per DIMM": {"windows": "one", "link_sum": "per link"},
    "cold cut at 8 % of the tokens": {"cold_cut": "tokens 0.08"},
    "layout from the offline trace, balanced over DIMMs": OFFLINE,
    "all three: one window, cold cut, offline trace (the default)": FAIR,
    "the default with a link per DIMM": FAIR | {"link_sum": "per link"},
    "the default with half shares": FAIR | {"dimm_share": "1/2"},
    "the default with GPU work in two parts": FAIR | {"gpu_work": "two parts"},
}
"""Reading -> the settlements of instances in which it differs from the first edition's."""


@dataclass(frozen=True)
class Row:
    """What the policies cost under one reading.

    Attributes
    ----------
    instances, proven
        How many instances there are, and how many of them have a proven optimum: these count.
    excess
        Policy -> relative excess over the optimum on each of them.
    gain
        Policy -> by which share its makespan is below that of no migration, negative if above.
    """

    reading: str
    instances: int
    proven: int
    excess: Mapping[str, Sequence[float]]
    gain: Mapping[str, Sequence[float]]

    @property
    def line(self) -> str:
        """As a row of the Markdown table."""
        cells = [
            f"{100 * median(of):.1f} / {100 * max(of):.1f} %" if of else "-"
            for of in (self.excess[policy] for policy in POLICIES)
        ]
        for policy in POLICIES[:2]:
            gain = self.gain[policy]
            worse = sum(share < 0 for share in gain)
            cells.append(f"{100 * median(gain):.1f} % ({worse})" if gain else "-")
        return f"| {self.reading} | {self.proven} of {self.instances} | {' | '.join(cells)} |"


HEADER = (
    f"| reading | proven | {' | '.join(POLICIES)} | benefit-greedy below none (above) | "
    "benefit-makespan below none (above) |\n|---|---:|" + "---:|" * (len(POLICIES) + 2)
)


def instances_of(families: Iterable[str]) -> list[Instance]:
    """Return the library's instances of some families, GLM-4.5-Air's left out.

    They repeat Qwen3-235B's experiment: as many experts, and all costs in proportion.
    """
    found = []
    for family in families:
        for path in sorted((LIBRARY / family).glob("*.json")):
            instance = moeopt.load(path)
            model = (instance.provenance or {}).get("model")
            if isinstance(instance, Instance) and model != "glm-4.5-air":
                found.append(instance)
    return found


def under(instance: Instance, settled: Mapping[str, str]) -> Instance:
    """Return the same loads under other settlements of instances."""
    for name, value in settled.items():
        made = resettled(instance, name, value)
        if made is None:
            raise SystemExit(f"{instance.name}: its provenance does not say how to make it again")
        instance = made
    return instance


def measure(reading: str, instances: Sequence[Instance], time_limit_s: float) -> Row:
    """Return what the policies cost on instances, over optima proven within the limit."""
    excess: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    gain: dict[str, list[float]] = {policy: [] for policy in POLICIES}
    proven = 0
    for instance in instances:
        best = moeopt.solve(instance, "evacuation", time_limit_s=time_limit_s)
        if best.status != "optimal" or not isinstance(best.objective, int):
            continue
        proven += 1
        spans = {name: objective(instance, HEURISTICS[name](instance)) for name in POLICIES}
        for policy, span in spans.items():
            excess[policy].append(span / best.objective - 1)
            gain[policy].append(1 - span / spans["none"])
    return Row(reading, len(instances), proven, excess, gain)


def rows(families: Iterable[str], time_limit_s: float = 60.0) -> Iterator[Row]:
    """Yield one row for each of `READINGS` on the instances of some families of the library."""
    instances = instances_of(families)
    for reading, settled in READINGS.items():
        yield measure(reading, [under(i, settled) for i in instances], time_limit_s)


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--families", default="small-batch", help="of the library, with commas")
    parser.add_argument("--time-limit", type=float, default=60.0, help="seconds per proof")
    arguments = parser.parse_args()
    print(HEADER)
    for row in rows(arguments.families.split(","), arguments.time_limit):
        print(row.line, flush=True)


if __name__ == "__main__":
    main()
