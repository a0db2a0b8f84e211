"""A layer of DeepSeek-V3 under Fiddler, on one socket and on two (KTransformers 2.3)."""

from benchmarks.papers.ktransformers.variants import Sockets, read_gb_s
from benchmarks.rooms.sim import get_model
from moeopt import get_machine

MODEL = "deepseek-v3"

ONE_SOCKET_MS = 6.9
"""Measured by the paper."""


def two_sockets_ms(*, shared_link: bool = False) -> float:
    """Return the time of the layer on two sockets, in ms, from that on one.

    Assumed: what the layer takes beyond reading its eight experts is the framework's, and the same
    on two sockets. Experts are read at the bandwidths that the paper measured, on one socket from
    its own memory, on two half from either, one half after the other.

    Parameters
    ----------
    shared_link
        The other reading of `variants.Sockets` instead.
    """
    return framework_ms() + _experts_ms("oblivious, shared link" if shared_link else "oblivious")


def framework_ms() -> float:
    """Return what remains of the measured time beside reading the experts."""
    return ONE_SOCKET_MS - _experts_ms("one socket")


def _experts_ms(sockets: Sockets) -> float:
    """Return how long reading a layer's active experts takes at the full bandwidth."""
    model, gb_s = get_model(MODEL), read_gb_s(get_machine("ktransformers-a100"), sockets)
    return 1e3 * model.top_k * model.expert_bytes / (gb_s * 1e9)
