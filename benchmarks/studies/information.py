"""What placement rules lose with what their papers give them, and with hindsight.

    python benchmarks/studies/information.py [--traces DIR] [--sequences N] [--time-limit S]

Context-aware CXL-NDP and the edge GPU-NDP paper place experts for the decoding of a sequence by its
prompt; KTransformers and Fiddler by an offline profile. Hindsight is the same rule by the counts of
the very steps it is measured on. Excess is over the proven optimum of those steps, median /
maximum. The optimum has hindsight too: what a rule loses with hindsight is its own, what it loses
beyond that is the price of not knowing, which nobody who decides beforehand can wholly avoid.

Without ``--traces`` the instances of the library that say what rules know, by family. With it, DIR
holds ``esft_deepseek_v2_lite/*.npz``: each of the N longest sequences of every trace is placed by
its first half for its second, with 25 and 50 % of the experts on the GPU, by the prompt's length.
There "exact" is the placement that is optimal for the prompt's tokens, one per step: what no other
rule could add by deciding better on the same tokens.
"""

import argparse
import json
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import moeopt
from benchmarks.rooms.placement import HEURISTICS, Instance, objective
from benchmarks.rooms.problems import get_problem
from benchmarks.rooms.sim import Trace

LIBRARY = Path(__file__).parents[2] / "instances" / "placement"
FOLDER = "esft_deepseek_v2_lite"
RULES = ("importance", "uniform-x", "frequency", "per-layer-frequency", "fiddler")
"""Those with a twin ``*-hindsight``."""

SHARES = (0.25, 0.5)
LENGTHS = (50, 150, 300)
"""Upper ends of the classes of prompts, in tokens; the last class has none."""


@dataclass(frozen=True)
class Measured:
    """One rule on one instance: its excess by what it may know, and by hindsight."""

    group: str
    instance: str
    rule: str
    knew: str
    fair: float
    hindsight: float


def in_library(families: Collection[str] | None = None) -> list[Measured]:
    """Return the rules on every proven instance of the library that says what they know.

    Parameters
    ----------
    families
        Only these; all if None.
    """
    index, best = (
        json.loads((LIBRARY / name).read_text()) for name in ("index.json", "best_known.json")
    )
    found: list[Measured] = []
    for key, entry in best.items():
        family, proven = Path(key).parent.name, entry["status"] == "optimal"
        known = "known" in index[key]["provenance"]
        if known and proven and (families is None or family in families):
            instance = moeopt.load(LIBRARY / key)
            assert isinstance(instance, Instance)
            found += measured(family, instance, entry["objective"])
    return found


def on_traces(folder: Path, sequences: int, limit_s: float) -> Iterator[Measured]:
    """Yield the rules on the longest sequences of each trace, grouped by the prompt's length.

    Instances that are not proven within the limit are left out.
    """
    for file in sorted((folder / FOLDER).glob("*.npz")):
        trace = replace(moeopt.load_trace(file), name=file.stem)
        assert trace.seq_len is not None
        lengths = trace.seq_len.tolist()
        longest = sorted(range(len(lengths)), key=lambda n: (-lengths[n], n))[:sequences]
        for number in longest:
            prompt = round(lengths[number] / 2)
            for share in SHARES:
                instance = _instance(
                    trace,
                    share,
                    batching="sequences",
                    first_sequence=number,
                    steps=min(200, lengths[number] - prompt),
                )
                best = moeopt.solve(instance, "price-and-swap", time_limit_s=limit_s)
                if best.status != "optimal":
                    continue
                assert isinstance(best.objective, int)
                group = _length_class(prompt)
                yield from measured(group, instance, best.objective)
                start = sum(lengths[:number])
                part = Trace("prompt", trace.topk_ids[start : start + prompt])
                known = _instance(part, share, steps=prompt)
                decided = moeopt.solve(known, "price-and-swap", time_limit_s=limit_s).solution
                plan = decided.model_copy(update={"instance": instance.name})
                over = objective(instance, plan) / best.objective - 1
                yield Measured(group, instance.name, "exact", "the prompt's tokens", over, 0.0)


def _instance(trace: Trace, share: float, **options: Any) -> Instance:
    made = moeopt.generate(
        "placement",
        machine="rtx4090-7960x",
        model="deepseek-v2-lite",
        trace=trace,
        share=share,
        **options,
    )
    assert isinstance(made, Instance)
    return made


def measured(group: str, instance: Instance, optimum_ns: int) -> Iterator[Measured]:
    """Yield every rule on an instance whose optimum is known; those without a placement are not."""
    problem = get_problem("placement")
    for rule in RULES:
        plans = [HEURISTICS[name](instance) for name in (rule, f"{rule}-hindsight")]
        excess = [objective(instance, plan) / optimum_ns - 1 for plan in plans if plan is not None]
        if len(excess) == len(plans):
            yield Measured(
                group, instance.name, rule, problem.information(rule, instance) or "", *excess
            )


def summary(
    found: Iterable[Measured], group_of: Callable[[Measured], str] = lambda one: one.group
) -> list[str]:
    """Return a Markdown table: rule by group, what it knew, and excess fair and in hindsight."""
    rows: dict[tuple[str, str, str], list[Measured]] = {}
    for one in found:
        rows.setdefault((group_of(one), one.rule, one.knew), []).append(one)
    lines = ["| | rule | knew | instances | fair | hindsight |", "|---|---|---|---:|---:|---:|"]
    for (group, rule, knew), of in rows.items():
        cells = (excess([one.fair for one in of]), excess([one.hindsight for one in of]))
        lines.append(f"| {group} | `{rule}` | {knew} | {len(of)} | {' | '.join(cells)} |")
    return lines


def excess(shares: list[float]) -> str:
    """Return median and maximum in percent."""
    return f"{100 * median(shares):.1f} / {100 * max(shares):.1f} %"


def _length_class(prompt: int) -> str:
    low = 0
    for high in LENGTHS:
        if prompt < high:
            return f"prompts of {low} to {high - 1} tokens"
        low = high
    return f"prompts of {low} tokens and more"


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with the traces; the library if absent")
    parser.add_argument("--sequences", type=int, default=6, help="of each trace, the longest")
    parser.add_argument("--time-limit", type=float, default=30.0, help="seconds per optimum")
    arguments = parser.parse_args()
    if arguments.traces is None:
        found = in_library()
    else:
        found = list(on_traces(arguments.traces, arguments.sequences, arguments.time_limit))
        order = {rule: place for place, rule in enumerate((*RULES, "exact"))}
        found.sort(key=lambda one: (int(one.group.split()[2]), order[one.rule]))
    print("\n".join([*summary(found), "", *summary(found, lambda _: "all")]))


if __name__ == "__main__":
    main()
