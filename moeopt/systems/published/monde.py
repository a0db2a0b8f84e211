"""MoNDE: hot experts are uploaded on demand, the rest run on NDP."""

import numpy as np

from moeopt.systems.policies import monde
from moeopt.systems.readers import Readers
from moeopt.systems.system import Assignment, RunState, System, SystemDecision, expected, idle
from moeopt.systems.work import GPU, NDP, Integers
from moeopt.systems.world import World


class MoNDE(System):
    """MoNDE, as TriMoE 5.1.2 and context-aware CXL-NDP 5.1 describe it: GPU and NDP.

    Experts lie on single DIMMs, in turn by falling popularity. How many of the hottest are uploaded
    is what balanced uploads and NDP work best on the layer's last step; none is kept.
    """

    name = "monde"
    paper = "MoNDE; TriMoE 5.1.2"
    needs = frozenset(("gpu", "ndp"))
    decisions = (SystemDecision("hot experts", "tri_domain", "monde", "forecast parameter"),)

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Localize every expert, on the DIMMs in turn by falling popularity."""
        return RunState.of(world, seen, dimm=in_turn(expected(world, seen), world.dimms))

    def route(self, state: RunState, layer: int, tokens: Integers) -> Assignment:
        """Upload as many of the hottest experts as would have been best on the last step."""
        last = np.rint(state.average[layer]) if state.loads is None else state.loads[layer]
        known = state.prompt or self.takes("hot_count") == "this step"
        seen = tokens if known else last.astype(np.int64)
        choice = monde(state.offer(layer, seen))[0]
        count = int(((choice == GPU) & (seen > 0)).sum())
        return Assignment(hot_on_gpu(tokens, count))


def hot_on_gpu(tokens: Integers, count: int) -> Integers:
    """Return the domains with the `count` experts of most tokens on the GPU, the others on NDP."""
    domain = np.full_like(tokens, NDP)
    domain[np.argsort(-tokens, kind="stable")[:count]] = GPU
    return idle(domain, tokens)


def in_turn(counts: np.ndarray[tuple[int, int], np.dtype[np.float64]], dimms: int) -> Integers:
    """Return a DIMM for each expert, in turn by falling count; shape (layers, experts)."""
    order = np.argsort(-counts, axis=1, kind="stable")
    dimm = np.empty(counts.shape, dtype=np.int64)
    turn = np.broadcast_to(np.arange(counts.shape[1]) % dimms, counts.shape)
    np.put_along_axis(dimm, order, turn, axis=1)
    return dimm
