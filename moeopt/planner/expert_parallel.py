"""Expert parallelism: where each expert and its copies lie, for all layers at once.

Each layer is an instance of problem `replication`, whose optimum has the fewest tokens on the
fullest rank.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

from moeopt.core.errors import InfeasibleError, InputError, expect
from moeopt.core.logs import logger_of
from moeopt.exporters.slots import SlotMap, copies_of, full_slots, redundant
from moeopt.problems.replication.bounds import lower_bound
from moeopt.problems.replication.check import objective
from moeopt.problems.replication.heuristics import eplb, eplb_hierarchical
from moeopt.problems.replication.instance import MAX_COPIES, Instance, Solution
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.presets import get_model
from moeopt.sim.traces.count_sample import counts_of_model
from moeopt.sim.traces.files import load_counts
from moeopt.sim.traces.trace import Counts
from moeopt.solvers.arguments import Limits
from moeopt.solvers.evidence import Proof
from moeopt.solvers.run import solve

from .goal import DECODING
from .report import Bracket, ExpertMap, PlanReport, Row

logger = logger_of(__name__)

METHOD, ENOUGH_GAP = "anneal-and-refute", 0.002
"""Decides each layer, to within this of its bound."""

WORK = Limits(work=25.0)
"""For all layers, unless it is said: units of work, for the same map everywhere."""

PROOFS: tuple[Proof, ...] = ("single", "confirmed", "own", "certificate")
"""What bounds rest on, the weakest first."""


@dataclass(frozen=True)
class BalancedLayer:
    """One layer: slots rank by rank, and tokens on the fullest rank."""

    instance: Instance
    row: tuple[int, ...]
    tokens: float
    bound: float
    proof: Proof | None
    eplb: tuple[tuple[int, ...], float] | None


def plan_expert_parallel(
    counts: Counts | str | Path,
    ranks: int,
    redundant_experts: int | None = None,
    *,
    model: ModelShape | str | Path | None = None,
    nodes: int = 1,
    groups: int | None = None,
    limits: Limits = WORK,
) -> PlanReport:
    """Plan which experts, and which copies of them, each rank of expert parallelism holds.

    All layers of a model at once, from how often each expert was used; no machine is needed.

    Parameters
    ----------
    counts
        How often each expert was used, or the file, in any format of `moeopt.load_counts`.
    ranks
        Over which the experts of a layer are spread.
    redundant_experts
        Copies in each layer; by default the fewest that divide evenly over the ranks.
    model
        Model of the counts; it checks them and numbers the layers in a runtime's map.
    nodes, groups
        Nodes of equally many ranks each; with several, all copies of a group of consecutive experts
        stay in one node. By default each expert is a group.
    limits
        For all layers together.

    Returns
    -------
    PlanReport
        `rows` has the map, `defaults` EPLB's and the one without copies; scores are tokens on the
        fullest rank, summed over the layers.

    Raises
    ------
    InputError
        If the counts are not the model's, or slots do not divide evenly over ranks and nodes.
    InfeasibleError
        If no map has the form asked for.

    Examples
    --------
    >>> import moeopt, numpy as np
    >>> from moeopt.sim.traces.trace import Counts
    >>> counts = Counts("mine", np.array([[[90, 40, 40, 30, 20, 10, 5, 5]]]))
    >>> report = moeopt.plan_expert_parallel(counts, ranks=4, redundant_experts=4)
    >>> [row.score for row in (report.best, *report.defaults)]
    [60.0, 70.0, 130.0]
    """
    expect("ranks", ranks, int, what="a whole number")
    expect("nodes", nodes, int, what="a whole number")
    expect("redundant_experts", redundant_experts, int, NoneType, what="a whole number")
    expect("groups", groups, int, NoneType, what="a whole number")
    expect("limits", limits, Limits, what="limits")
    known = load_counts(counts) if isinstance(counts, str | Path) else counts
    expect("counts", known, Counts, what="counts or a file")
    shape = None if model is None else get_model(model)
    if shape is not None:
        known = counts_of_model(known, shape)
    loads, experts = known.total().tolist(), known.experts
    slots = _slots(experts, ranks, redundant_experts, nodes, groups)
    part, found = limits.part(1 / len(loads)), list[BalancedLayer]()
    for number, tokens in enumerate(loads):
        instance = Instance.from_arrays(
            loads=[tokens],
            devices=ranks,
            slots=slots,
            nodes=nodes,
            groups=groups,
            max_copies=min(ranks, MAX_COPIES),
            name=f"{known.name}-layer{number}",
        )
        found.append(_decided(instance, part))
    logger.info("%s: %d layers over %d ranks of %d slots", known.name, len(found), ranks, slots)
    return _report(known, experts, ranks, nodes, found)


def _slots(experts: int, ranks: int, copies: int | None, nodes: int, groups: int | None) -> int:
    """Return the slots of each rank, unless something does not divide evenly."""
    if not 1 <= ranks <= experts:
        raise InputError(f"must be from 1 to {experts}, the experts, not {ranks}", field="ranks")
    copies = redundant(experts, ranks) if copies is None else copies
    if copies < 0 or (experts + copies) % ranks or experts + copies > experts * ranks:
        least = redundant(experts, ranks)
        most = experts * (ranks - 1)
        first = f"{least} plus " if least else ""
        said = f"must be {first}a multiple of {ranks}, at most {most}, not {copies}"
        raise InputError(said, field="redundant_experts")
    if nodes < 1 or ranks % nodes:
        raise InputError(f"must divide the {ranks} ranks, not {nodes}", field="nodes")
    if groups is not None and (nodes == 1 or groups < 1 or experts % groups):
        need = "needs several nodes" if nodes == 1 else f"must divide the {experts} experts"
        raise InputError(f"{need}, not {groups}", field="groups")
    return (experts + copies) // ranks


def _decided(instance: Instance, limits: Limits) -> BalancedLayer:
    """Return a layer's slots, filled, beside EPLB's."""
    result = solve(instance, METHOD, **limits.asked, enough_gap=ENOUGH_GAP)
    theirs = (eplb if instance.nodes == 1 else eplb_hierarchical)(instance)
    published = None if theirs is None else _filled(instance, theirs)
    solution = result.solution if isinstance(result.solution, Solution) else theirs
    if solution is None:
        raise InfeasibleError(f"{instance.name}: no map of {instance.devices} ranks was found")
    row, tokens = _filled(instance, solution)
    if published is not None and published[1] < tokens:
        row, tokens = published
    own = not isinstance(result.bound, int)
    bound = lower_bound(instance) if own else result.bound
    assert isinstance(bound, int)  # noqa: S101 - so is every bound of this problem
    proof = "own" if own else result.proof
    return BalancedLayer(instance, row, tokens, bound / instance.units_per_token, proof, published)


def _filled(instance: Instance, solution: Solution) -> tuple[tuple[int, ...], float]:
    """Return the experts of all slots, none of them empty, and the tokens on the fullest rank."""
    row = tuple(expert for own in full_slots(instance, solution) for expert in own)
    return row, fullest(instance, row)


def fullest(instance: Instance, row: Sequence[int]) -> float:
    """Return the tokens on the fullest rank, shared out evenly over copies."""
    each = len(row) // instance.devices
    held = [list(row[first : first + each]) for first in range(0, len(row), each)]
    copies = copies_of(held, instance.experts)
    plan = Solution(instance=instance.name, copies=copies)
    return objective(instance, plan) / instance.units_per_token


def _report(
    counts: Counts, experts: int, ranks: int, nodes: int, layers: Sequence[BalancedLayer]
) -> PlanReport:
    """Return the report: tokens are sums over the layers, which run one after the other."""
    total = round(sum(layer.tokens for layer in layers), 3)
    bound = round(sum(layer.bound for layer in layers), 3)
    rests = [layer.proof for layer in layers if layer.proof is not None]
    proof = min(rests, key=PROOFS.index, default=None)
    rows = tuple(layer.row for layer in layers)
    best = Row("plan", None, ExpertMap(rows, ranks, experts), total)
    defaults, names = list[Row](), {"eplb": "EPLB", "no_copies": "no copies"}
    tokens: dict[str, float | None] = {"optimum": total, "eplb": None, "no_copies": None}
    theirs = [layer.eplb for layer in layers if layer.eplb is not None]
    if len(theirs) == len(layers):
        policy = "EPLB, global policy" if nodes == 1 else "EPLB, hierarchical policy"
        tokens["eplb"] = peaks = round(sum(peak for _, peak in theirs), 3)
        map_ = ExpertMap(tuple(row for row, _ in theirs), ranks, experts)
        defaults.append(Row(policy, None, map_, peaks))
    plain = [_no_copies(layer.instance) for layer in layers] if experts % ranks == 0 else []
    if plain:
        tokens["no_copies"] = peaks = round(sum(plain), 3)
        map_ = ExpertMap((tuple(range(experts)),) * len(layers), ranks, experts)
        defaults.append(Row("no copies, experts in turn", None, map_, peaks))
    mean = sum(sum(layer.instance.windows[0].loads) for layer in layers) / ranks
    by_layer: list[dict[str, float | None]] = [
        {
            "optimum": round(layer.tokens, 3),
            "bound": round(layer.bound, 3),
            "eplb": None if layer.eplb is None else round(layer.eplb[1], 3),
            "no_copies": round(plain[number], 3) if plain else None,
            "mean": sum(layer.instance.windows[0].loads) / ranks,
        }
        for number, layer in enumerate(layers)
    ]
    more = {
        "counts": counts.name,
        "ep_size": ranks,
        "nodes": nodes,
        "redundant_experts": best_map(best).redundant,
        "tokens_on_fullest_rank": tokens,
        "mean_tokens": round(mean, 3),
        "bound_tokens": bound,
        "layers": by_layer,
    }
    unit = layers[0].instance.units_per_token
    peaks_units, bound_units = (
        round(unit * sum(getattr(layer, name) for layer in layers)) for name in ("tokens", "bound")
    )
    bracket = Bracket(peaks_units, bound_units, f"1/{unit} tokens", proof)
    lines = (
        f"{counts.name}: {len(layers)} layers of {experts} experts over {ranks} ranks"
        + (f" of {nodes} nodes" if nodes > 1 else "")
        + f", {best_map(best).redundant} redundant experts in each layer",
        "tokens on the fullest rank, all layers together, and over the mean of the ranks:",
        *(
            f"  {row.name:28} {row.score:15,.1f} {row.score / mean if mean else 1.0:8.3f}"
            for row in (best, *defaults)
        ),
        f"  {'bound: no map has fewer':28} {bound:15,.1f} {bound / mean if mean else 1.0:8.3f}",
        *(
            f"{names[key]}: {value / total - 1:+.1%} tokens on the fullest rank beside this plan's"
            for key, value in tokens.items()
            if key in names and value is not None and total
        ),
        f"at most {bracket.gap:.2%} above the optimum" if bracket.gap else "the optimum, proven",
    )
    worst = max(layers, key=lambda layer: layer.tokens)
    return PlanReport(
        "expert-parallel",
        DECODING,
        (best,),
        bracket,
        tuple(defaults),
        more=more,
        lines=lines,
        instance=worst.instance,
    )


def best_map(row: Row) -> ExpertMap:
    """Return a row's map, which it has by this strategy."""
    assert isinstance(row.decision, ExpertMap)  # noqa: S101
    return row.decision


def _no_copies(instance: Instance) -> float:
    """Return the tokens on the fullest rank where experts are dealt out in turn, without copies."""
    loads, ranks = instance.windows[0].loads, instance.devices
    each = len(loads) // ranks
    return float(max(sum(loads[first : first + each]) for first in range(0, len(loads), each)))


def slot_map_of(report: PlanReport, model: ModelShape) -> SlotMap:
    """Return the map of a report as files of runtimes have it.

    Raises
    ------
    InputError
        If the model has another number of layers with experts.
    """
    found = best_map(report.best)
    rows = [list(row) for row in found.physical_to_logical]
    if len(rows) != len(model.moe_layers):
        there = len(model.moe_layers)
        raise InputError(f"{model.name} has {there} layers with experts, not {len(rows)}")
    return SlotMap(
        rows=rows,
        experts=found.experts,
        hidden=tuple(model.moe_layers),
        all_layers=model.layers,
        devices=found.ranks,
        notes={"balance": report.more["layers"], "moe_layers": list(model.moe_layers)},
        keeps_all=True,
    )
