"""Times of all of a model's layers, from a run of a system on some of them."""

from benchmarks.rooms.systems import Run, World


def decode_s(world: World, run: Run) -> float:
    """Return a decode step's time: the last layer once, the others as the mean of theirs.

    A last layer defers nothing. One layer stands for itself and all others.
    """
    outside = float((run.step_ns - run.layer_ns.sum(axis=1)).mean())
    last = float(run.layer_ns[:, -1].mean())
    others = float(run.layer_ns[:, :-1].mean()) if world.layers > 1 else last
    return (outside + others * (len(world.model.moe_layers) - 1) + last) / 1e9


def prefill_s(world: World, run: Run) -> float:
    """Return the time of the prompts, and of what is moved behind them."""
    if run.prefill_ns is None:
        raise ValueError("the run has no prompts")
    tokens = world.batch * world.prompt
    chunk = min(world.ubatch, tokens)
    whole, rest = divmod(tokens, chunk)
    outside = whole * world.outside_ns(chunk, 0) + (world.outside_ns(rest, 0) if rest else 0)
    layer = (run.prefill_ns - outside) / world.layers
    return (outside + layer * len(world.model.moe_layers)) / 1e9
