"""Settings: how a runtime is started on a machine, wherever weights lie."""

from dataclasses import dataclass
from datetime import date
from functools import cached_property
from typing import Literal

from moeopt.core.errors import expect
from moeopt.sim.machines.cores import Cores, NumaMode, cores_of
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.context import USUAL, Context
from moeopt.sim.machines.runtimes.kv_types import KvType, kv_width
from moeopt.sim.models.model_shape import ModelShape

RuntimeId = Literal["llama.cpp", "ik_llama.cpp", "ktransformers"]

UBATCH = 512
"""llama.cpp's default of ``--ubatch-size``: tokens of a prompt that are computed together."""


@dataclass(frozen=True)
class Setting:
    """A model in a runtime on a machine, one sequence; where things lie is a `Placement`.

    Parameters
    ----------
    machine, model
        Without a GPU the CPU computes everything. Weights have the model's widths.
    runtime
        As in ``moeopt list runtimes``.
    context
        Tokens in the KV cache, and how many it has room for.
    kv
        Types of the cache's keys and values; None: of the model's own widths.
    ubatch
        Tokens of a prompt that are computed together.
    threads
        Threads of the CPU; None: one for each core.
    numa
        How weights lie on several nodes.
    runtime_date
        Of the runtime's version; None: of the newest that were measured.
    """

    machine: Machine
    model: ModelShape
    runtime: str = "llama.cpp"
    context: Context = USUAL
    kv: tuple[KvType, KvType] | None = None
    ubatch: int = UBATCH
    threads: int | None = None
    numa: NumaMode = "interleaved"
    runtime_date: date | None = None

    def __post_init__(self) -> None:
        """Raise InputError unless the context is one."""
        expect("context", self.context, Context, what="a Context")

    @cached_property
    def shape(self) -> ModelShape:
        """The model with the widths of the cache."""
        return self.model if self.kv is None else self.model.with_kv_bits(*map(kv_width, self.kv))

    @cached_property
    def used(self) -> Machine:
        """The machine with as many of its cores as compute."""
        return self.machine.with_threads(self.threads)

    @property
    def cores(self) -> Cores:
        """The host's cores as they compute experts."""
        return cores_of(self.used, self.numa)
