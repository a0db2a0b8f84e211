"""Small random traces for the tests of the statistics."""

import numpy as np
from hypothesis import strategies as st

from tests.rooms.sim import Routing, Trace


def trace_of(
    ids: object, lengths: list[int] | None = None, decode: list[bool] | None = None
) -> Trace:
    """Return a trace of one layer from the experts of each token, or of several from (t, l, k)."""
    array = np.array(ids)
    return Trace(
        name="small",
        topk_ids=array[:, None, :] if array.ndim == 2 else array,
        seq_len=None if lengths is None else np.array(lengths),
        decode=None if decode is None else np.array(decode),
    )


def routing_of(
    ids: object, experts: int | None = None, lengths: list[int] | None = None
) -> Routing:
    """Return the routing of `trace_of`."""
    return Routing.of(trace_of(ids, lengths), experts)


@st.composite
def small_traces(draw: st.DrawFn) -> tuple[Trace, int]:
    """Return a trace of few tokens, with gaps and repeated ids, and its number of experts."""
    experts = draw(st.integers(2, 7))
    top_k = draw(st.integers(1, min(4, experts)))
    tokens, layers = draw(st.integers(1, 30)), draw(st.integers(1, 3))
    least = draw(st.sampled_from([0, -1]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids = rng.integers(least, experts, size=(tokens, layers, top_k))
    ids[0, :, 0] = experts - 1
    cut = draw(st.integers(0, tokens))
    return trace_of(ids, [cut, 0, tokens - cut]), experts
