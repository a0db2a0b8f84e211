"""Migration decisions before a layer, as instances of the problem `relayout`."""

from moeopt.problems.relayout.generate import Options, on_layout
from moeopt.problems.relayout.instance import Instance
from moeopt.problems.tri_domain.expert import Layout

from .layouts import source_of
from .system import RunState
from .work import Integers

FREE_SLOTS = 2
"""Experts that may be prefetched for a step beside the residents."""


def relayout_instance(
    state: RunState, layer: int, tokens: Integers, window_ns: int, move_ns: int
) -> Instance:
    """Return the instance of a layer's expected tokens on the state's layout.

    Every DIMM has a link of its own; a move keeps both its DIMMs' links busy for the bytes of an
    expert. Where there is no such link, a move takes more than its window.
    """
    world = state.world
    options = Options(
        dimms=world.dimms,
        batch=world.batch,
        hbm_free_slots=FREE_SLOTS,
        link_sum="per link",
        link_move_us=min(move_ns, 2 * window_ns + 1000) / 1e3,
        link_window_us=window_ns / 1e3,
        gpu_work="two parts",
    )
    layout = Layout(state.resident[layer], state.dimm[layer])
    return on_layout(source_of(world), options, tokens, layout, f"layer{layer}")
