"""Expert parallelism: where each expert and its copies lie, for all layers at once.

Each layer is an instance of problem `replication`, whose optimum has the fewest tokens on the
fullest rank.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import NoneType
from typing import NamedTuple

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


MAPS = {"optimum": "plan", "eplb": "EPLB", "no_copies": "no copies"}
"""Maps of a layer that are compared, the plan's first: by their names in JSON."""


class LayerMap(NamedTuple):
    """The experts of all slots of a layer, rank by rank, and the tokens on the fullest rank."""

    slots: tuple[int, ...]
    tokens: float


@dataclass(frozen=True)
class BalancedLayer:
    """One layer: its maps by name, None where there is none, and tokens that no map is below."""

    instance: Instance
    maps: Mapping[str, LayerMap | None]
    bound: float
    proof: Proof | None

    @property
    def mean(self) -> float:
        """Tokens of a rank, if all had equally many."""
        return sum(self.instance.windows[0].loads) / self.instance.devices

    def peak(self, name: str) -> float | None:
        """Return the tokens on the fullest rank by a map, as they are printed."""
        held = self.maps[name]
        return None if held is None else round(held.tokens, 3)


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
    solution = result.solution if isinstance(result.solution, Solution) else theirs
    if solution is None:
        raise InfeasibleError(f"{instance.name}: no map of {instance.devices} ranks was found")
    known = None if theirs is None else _filled(instance, theirs)
    best = _filled(instance, solution)
    in_turn = tuple(range(instance.experts))
    plain = None if instance.experts % instance.devices else _held(instance, in_turn)
    maps = {
        "optimum": best if known is None or best.tokens <= known.tokens else known,
        "eplb": known,
        "no_copies": plain,
    }
    own = not isinstance(result.bound, int)
    bound = lower_bound(instance) if own else result.bound
    assert isinstance(bound, int)  # noqa: S101 - so is every bound of this problem
    proof = "own" if own else result.proof
    return BalancedLayer(instance, maps, bound / instance.units_per_token, proof)


def _filled(instance: Instance, solution: Solution) -> LayerMap:
    """Return a solution with no slot empty."""
    return _held(instance, [e for own in full_slots(instance, solution) for e in own])


def _held(instance: Instance, slots: Sequence[int]) -> LayerMap:
    """Return experts in slots with the tokens on the fullest rank, shared evenly over copies."""
    each = len(slots) // instance.devices
    held = [list(slots[first : first + each]) for first in range(0, len(slots), each)]
    plan = Solution(instance=instance.name, copies=copies_of(held, instance.experts))
    return LayerMap(tuple(slots), objective(instance, plan) / instance.units_per_token)


def _report(
    counts: Counts, experts: int, ranks: int, nodes: int, layers: Sequence[BalancedLayer]
) -> PlanReport:
    """Return the report: tokens are sums over the layers, which run one after the other."""
    policy = "global policy" if nodes == 1 else "hierarchical policy"
    how = {"optimum": "", "eplb": f", {policy}", "no_copies": ", experts in turn"}
    tokens, rows = dict[str, float | None](), list[Row]()
    for name, said in MAPS.items():
        held = [one for layer in layers if (one := layer.maps[name]) is not None]
        tokens[name] = None
        if len(held) == len(layers):
            tokens[name] = total = round(sum(one.tokens for one in held), 3)
            slots = ExpertMap(tuple(one.slots for one in held), ranks, experts)
            rows.append(Row(said + how[name], None, slots, total))
    best, *defaults = rows
    bound, mean = sum(layer.bound for layer in layers), sum(layer.mean for layer in layers)
    rests = [layer.proof for layer in layers if layer.proof is not None]
    proof = min(rests, key=PROOFS.index, default=None)
    by_layer: list[dict[str, float | None]] = [
        {
            "optimum": layer.peak("optimum"),
            "bound": round(layer.bound, 3),
            "eplb": layer.peak("eplb"),
            "no_copies": layer.peak("no_copies"),
            "mean": layer.mean,
        }
        for layer in layers
    ]
    told = {
        "counts": counts.name,
        "ep_size": ranks,
        "nodes": nodes,
        "redundant_experts": best_map(best).redundant,
        "tokens_on_fullest_rank": tokens,
        "mean_tokens": round(mean, 3),
        "bound_tokens": round(bound, 3),
        "layers": by_layer,
    }
    unit = layers[0].instance.units_per_token
    peaks = sum(one.tokens for layer in layers if (one := layer.maps["optimum"]) is not None)
    bracket = Bracket(round(unit * peaks), round(unit * bound), f"1/{unit} tokens", proof)
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
            f"{said}: {value / best.score - 1:+.1%} tokens on the fullest rank beside this plan's"
            for name, said in MAPS.items()
            if name != "optimum" and (value := tokens[name]) is not None and best.score
        ),
        f"at most {bracket.gap:.2%} above the optimum" if bracket.gap else "the optimum, proven",
    )
    worst = max(layers, key=lambda layer: layer.peak("optimum") or 0.0)
    return PlanReport(
        "expert-parallel",
        DECODING,
        (best,),
        bracket,
        tuple(defaults),
        more=told,
        lines=lines,
        instance=worst.instance,
    )


def best_map(row: Row) -> ExpertMap:
    """Return a row's map, which it has by this strategy."""
    assert isinstance(row.decision, ExpertMap)  # noqa: S101
    return row.decision


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
