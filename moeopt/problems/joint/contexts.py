"""Ways to keep the KV cache, of which a joint plan chooses one."""

from typing import Annotated

from pydantic import Field

from moeopt.core.envelope import Count, Data, Name, Nanoseconds

MAX_LAYERS = 1024


class Context(Data):
    """One way to keep the KV cache: its length, its width, how many sequences.

    Parameters
    ----------
    name
        What it is called.
    kv_bytes
        GPU memory that it takes.
    attention_ns
        Attention of every layer.
    step_ns
        What a step takes before its first layer with experts: dense layers, the head.
    kv_loss
        What it adds to the loss.
    """

    name: Name
    kv_bytes: Count
    attention_ns: Annotated[tuple[Nanoseconds, ...], Field(max_length=MAX_LAYERS, fail_fast=True)]
    step_ns: Nanoseconds = 0
    kv_loss: Count = 0
