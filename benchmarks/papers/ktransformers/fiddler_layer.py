"""A layer of DeepSeek-V3 under Fiddler, on one socket and on two (KTransformers 2.3)."""

from benchmarks.papers.ktransformers.variants import Sockets, with_sockets
from benchmarks.rooms.sim import cpu_read_s, get_model
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
    machine, model = with_sockets(get_machine("ktransformers-a100"), sockets), get_model(MODEL)
    cpu = machine.require_cpu().model_copy(update={"bandwidth_efficiency": None})
    full = machine.model_copy(update={"cpu": cpu})
    return 1e3 * model.top_k * cpu_read_s(full, model, "striped")
