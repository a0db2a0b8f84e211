"""The fourteen points on which the comparison hung: figures as they were, and fair ones.

    python benchmarks/studies/settlements.py [--traces DIR] [--points 1,2,...] [--markdown FILE]

For each point: what was compared before, the figure of that, what the paper says, and the figure of
the fair comparison. Excess is over proven optima of the instance library, median / maximum. Points
12 and 13 need routing traces: DIR holds ``esft_deepseek_v2_lite`` and ``hdmoe_mixtral_8x7b``;
without it they are left out. What a single settlement moves is ``moeopt gap PATH --settlements``.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import moeopt
from moeopt.core.objective import entries

LIBRARY = Path(__file__).parents[2] / "instances"


@dataclass(frozen=True)
class Figure:
    """What was measured, in words and numbers."""

    what: str
    value: str


@dataclass(frozen=True)
class Point:
    """One point: the figure as it was, the paper's words, the fair figure."""

    number: int
    title: str
    words: str
    source: str
    before: Figure
    fair: Figure


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, help="folder with the routing traces")
    parser.add_argument("--points", help="comma-separated numbers (default: all)")
    parser.add_argument("--markdown", type=Path, help="also write the table to this file")
    arguments = parser.parse_args()
    asked = None if arguments.points is None else {int(n) for n in arguments.points.split(",")}
    lines = list(table(arguments.traces, asked))
    if arguments.markdown is not None:
        arguments.markdown.write_text("\n".join(lines) + "\n")


def table(traces: Path | None, asked: set[int] | None = None) -> Iterator[str]:
    """Yield the table's lines, printing each as soon as it is known."""
    for line in (
        "| point | the paper | before | fair |",
        "|---|---|---|---|",
    ):
        print(line)
        yield line
    for number, measure in POINTS.items():
        if asked is not None and number not in asked:
            continue
        point = measure(traces)
        if point is None:
            print(f"{number}: needs --traces")
            continue
        said = f'"{point.words}" ({point.source})' if point.words else point.source
        cells = [f"{figure.what}: {figure.value}" for figure in (point.before, point.fair)]
        line = f"| {number}. {point.title} | {said} | {' | '.join(cells)} |"
        print(line, flush=True)
        yield line


def excess(problem: str, family: str, method: str) -> list[float]:
    """Return a method's excess on each instance of a family whose optimum is proven."""
    return [
        _first(moeopt.solve(instance, method=method).objective) / _first(entry["objective"]) - 1
        for instance, entry in proven(problem, family)
    ]


def proven(problem: str, family: str) -> list[tuple[Any, dict[str, Any]]]:
    """Return instance and entry of ``best_known.json`` of a family's proven instances."""
    return [
        (_load(LIBRARY / problem / key), entry)
        for key, entry in _best_known(problem).items()
        if key.startswith(f"{family}/") and entry["status"] == "optimal"
    ]


@cache
def _load(path: Path) -> Any:
    return moeopt.load(path)


@cache
def _best_known(problem: str) -> dict[str, dict[str, Any]]:
    known: dict[str, dict[str, Any]] = json.loads(
        (LIBRARY / problem / "best_known.json").read_text()
    )
    return known


def _first(objective: Any) -> int:
    return next(iter(entries(objective)))


def spread(values: list[float]) -> str:
    """Return median and maximum in per cent, and of how many."""
    return f"{100 * median(values):.1f} / {100 * max(values):.1f} % of {len(values)}"


def own_layouts(_: Path | None) -> Point:
    """Point 1: baselines ran on TriMoE's layout."""
    systems = ("klotski", "ktransformers", "monde", "fiddler", "trimoe")
    before = [f"`{s}` {_middle(excess('tri_domain', 'esft-window', s))}" for s in systems]
    fair = [f"`{s}` {_middle(excess('layout', 'own-esft', s))}" for s in systems]
    return Point(
        1,
        "baselines on a foreign layout (real routing)",
        "preferences (striped for CPU/GPU vs. localized for NDP)",
        "TriMoE 3.2",
        Figure("all on TriMoE's layout, over its own optimum", ", ".join(before)),
        Figure("each on its own layout, over the best of any layout", ", ".join(fair)),
    )


def _middle(values: list[float]) -> str:
    return f"{100 * median(values):.0f} %"


def cold_cut(_: Path | None) -> Point:
    """Point 2: TriMoE's schedule on a layout with 70 % of the experts cold."""
    return Point(
        2,
        "TriMoE's schedule on real routing",
        "over 70% of all experts but processes only 8% of tokens",
        "TriMoE 3.1",
        Figure(
            "70 % of the experts cold, last step, GPU first at ties",
            spread(excess("tri_domain", "esft-window", "trimoe[tie_order=gpu]")),
        ),
        Figure(
            "the coldest with 8 % of the tokens, offline trace, CPU first",
            spread(excess("tri_domain", "esft-fair", "trimoe")),
        ),
    )


def balance_times(_: Path | None) -> Point:
    """Point 3: Eq. 2 with the mean of all experts' times."""
    families = sorted(p.name for p in (LIBRARY / "balance").glob("prefill*"))

    def of(method: str) -> str:
        return spread([v for family in families for v in excess("balance", family, method)])

    return Point(
        3,
        "the balance equation in prefill",
        "T_n as expert computation time on NDP",
        "edge GPU-NDP III-C",
        Figure("one mean time for all experts", of("balance-equation[balance_times=mean]")),
        Figure("each remaining expert's own", of("balance-equation")),
    )


def layout_rule(_: Path | None) -> Point:
    """Point 4: the layout rule with 70 % of the experts cold."""
    return Point(
        4,
        "TriMoE's layout rule on real routing",
        "localizing cold experts onto single DIMMs",
        "TriMoE 4.3",
        Figure(
            "coldest 70 % of the experts",
            spread(excess("layout", "esft", "trimoe-layout[cold_cut=experts 0.7]")),
        ),
        Figure("coldest with 8 % of the tokens", spread(excess("layout", "esft", "trimoe-layout"))),
    )


def overlap_window(_: Path | None) -> Point:
    """Point 5: two windows of different length."""

    def of(family: str) -> str:
        rules = ("benefit-greedy", "benefit-makespan", "none")
        return ", ".join(f"`{rule}` {spread(excess('relayout', family, rule))}" for rule in rules)

    return Point(
        5,
        "migrations at small batches",
        "hidden within the overlap window provided by the current layer's MLP and Attention",
        "TriMoE 4.3",
        Figure("PCIe window 1.48 ms beside DIMM-Link's 0.68 ms", of("small-batch")),
        Figure("one window of 0.68 ms", of("one-window")),
    )


def one_experiment(_: Path | None) -> Point:
    """Point 6: GLM-4.5-Air and Qwen3-235B."""
    pairs = [
        abs(a - b)
        for method in ("greedy", "trimoe", "ktransformers", "monde")
        for a, b in zip(
            excess("tri_domain", "glm-4.5-air", method),
            excess("tri_domain", "qwen3-235b-a22b", method),
            strict=True,
        )
    ]
    return Point(
        6,
        "GLM-4.5-Air and Qwen3-235B",
        "",
        "TriMoE Table 2: 128 routed experts and top-k 8 in both",
        Figure("counted as two experiments", f"excess differs by {100 * median(pairs):.1f} points"),
        Figure("one: GLM's families say that they repeat Qwen's", "1 experiment"),
    )


def one_queue(_: Path | None) -> Point:
    """Point 7: HybriMoE decides as KTransformers does."""

    def differ(family: str) -> str:
        of = proven("tri_domain", family)
        found = sum(
            moeopt.solve(i, method="hybrimoe").objective
            != moeopt.solve(i, method="ktransformers").objective
            for i, _ in of
        )
        return f"{found} of {len(of)} instances differ"

    return Point(
        7,
        "HybriMoE and KTransformers",
        "",
        "TriMoE Eq. 2 and 5: an expert's path is one piece of work",
        Figure("two columns, GPU work in one part", differ("esft-window")),
        Figure("one column there; two where transfers overlap computation", differ("two-part")),
    )


def channels(_: Path | None) -> Point:
    """Point 8: every DIMM is charged in full for a striped read."""
    from benchmarks.studies import tri_domain_channels as study

    before, fair = study.figures()
    return Point(
        8,
        "host reads, DIMMs and channels",
        "8 Channels x 2 DIMM",
        "TriMoE Table 1",
        Figure("every DIMM charged in full, no channel rows", before),
        Figure("half charge and channel rows", fair),
    )


def information(_: Path | None) -> Point:
    """Point 9: rules with hindsight."""
    rules = ("importance", "uniform-x", "frequency")

    def of(suffix: str) -> str:
        return ", ".join(
            f"`{rule}` {spread(excess('placement', 'prompts', rule + suffix))}" for rule in rules
        )

    return Point(
        9,
        "what placement rules know",
        "top-K most important experts in each layer",
        "context-aware CXL-NDP 4.1",
        Figure("decided on the very steps they are judged on", of("-hindsight")),
        Figure("decided on the prompts before them", of("")),
    )


def prefix_budget(_: Path | None) -> Point:
    """Point 10: prefix split off consecutive widths."""
    from benchmarks.studies import bitwidth_scale as study

    before, fair = study.prefix_figures()
    return Point(
        10,
        "prefix split off consecutive widths (2, 4, 8, 16)",
        "",
        "context-aware CXL-NDP 4.2: widths 1 to 4 only",
        Figure("the largest reachable sum of bits", before),
        Figure("the best split within the budget", fair),
    )


def published_figures(_: Path | None) -> Point:
    """Point 11: verdicts of `python -m benchmarks.papers`."""
    from benchmarks.papers.report.words import summary
    from benchmarks.papers.run import reproduce

    return Point(
        11,
        "published figures that come out",
        "",
        "five papers, 52 figures; with decode throughputs 55",
        Figure(
            "single seeds, end-to-end against decode figures", "29 within 5 %, 8 of them chosen"
        ),
        Figure("six seeds and intervals", summary(list(reproduce()))),
    )


def repeated_text(traces: Path | None) -> Point | None:
    """Point 12: traces that read the same text twice."""
    if traces is None:
        return None
    from moeopt.sim.traces.repeats import find_repeats

    def shares(folder: str) -> str:
        found = [
            find_repeats(moeopt.load_trace(path)).share
            for path in sorted((traces / folder).glob("*.npz"))
        ]
        return f"{100 * min(found):.0f} to {100 * max(found):.0f} %"

    return Point(
        12,
        "tokens that a trace reads twice",
        "",
        "HD-MoE's traces of MT-bench; second turns read the first again",
        Figure("Mixtral's traces as they are", shares("hdmoe_mixtral_8x7b")),
        Figure("ESFT's", shares("esft_deepseek_v2_lite")),
    )


def holdouts(traces: Path | None) -> Point | None:
    """Point 13: three hold-outs, at one distance."""
    if traces is None:
        return None
    from benchmarks.studies import holdout_distance as study

    before, fair = study.figures(traces)
    return Point(
        13,
        "decisions on later loads",
        "",
        "finding 2",
        Figure("three hold-outs per layer, one distance", before),
        Figure("with intervals, by distance", fair),
    )


def loss_scale(_: Path | None) -> Point:
    """Point 14: losses rounded on one scale."""
    from benchmarks.studies import bitwidth_scale as study

    before, fair = study.scale_figures()
    return Point(
        14,
        "losses in integers",
        "",
        "no paper: our conversion",
        Figure("one scale from the largest loss of the model", before),
        Figure("a scale per layer, after usage, its error bounded", fair),
    )


POINTS: dict[int, Callable[[Path | None], Point | None]] = dict(
    enumerate(
        (
            *(own_layouts, cold_cut, balance_times, layout_rule, overlap_window, one_experiment),
            *(one_queue, channels, information, prefix_budget, published_figures, repeated_text),
            *(holdouts, loss_scale),
        ),
        start=1,
    )
)


if __name__ == "__main__":
    main()
