"""What a prediction may be asked for: options of `moeopt.predict` and of ``moeopt predict``."""

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from moeopt.core.errors import InputError
from moeopt.core.options import option
from moeopt.sim.machines.runtimes.context import ContextOptions

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from moeopt.core.envelope import SolutionEnvelope
    from moeopt.sim.plan import Plan


def date_of(name: str, value: object) -> date | None:
    """Return a date given as one or as text, as in 2026-03-01.

    Raises
    ------
    InputError
        If it is none.
    """
    if value is None or isinstance(value, date):
        return value
    try:
        return date.fromisoformat(str(value))
    except ValueError:
        said = f"must be a date as in 2026-03-01, not {value!r:.40}"
        raise InputError(said, field=name) from None


@dataclass(frozen=True, kw_only=True)
class RunOptions(ContextOptions):
    """How a runtime is started."""

    runtime: str = option("llama.cpp", "As in moeopt list runtimes.")
    n_cpu_moe: int | None = option(
        None, "Blocks whose experts the CPU computes; default: the fewest that fit."
    )
    gpu_experts: int | None = option(None, "Instead: experts of every layer on the GPU.")
    kv_bits: str | float | None = option(
        None, "KV cache: bits, or q8_0 etc.", read=lambda _, value: value
    )
    prompt: int | None = option(None, "Tokens of a prompt: its speed as well.", least=1, most=2**24)
    ubatch: int = option(512, "Tokens of a prompt computed together.", least=1, most=2**16)
    threads: int | None = option(
        None, "CPU threads; default: as many as are fastest.", least=1, most=65536
    )
    gpus: int | None = option(None, "So many of the machine's GPU.", least=1, most=64)
    runtime_date: date | None = option(
        None,
        "Date of the runtime's version: 2026-03-01; default: of the newest that were measured.",
        read=date_of,
    )
    measured: float | None = option(
        None, "Tokens/s that were measured: what explains the difference.", above=0.0, most=1e7
    )


@dataclass(frozen=True, kw_only=True)
class PredictOptions(RunOptions):
    """Options of `moeopt.predict`."""

    bits: str | float | None = option(
        None, "Bits of all weights, or Q4_K_M etc.; default: the model's own."
    )
    plan: "Plan | SolutionEnvelope | None" = option(
        None, "In place of `n_cpu_moe`: residents as in a plan, or a solution of problem `split`."
    )
    popularity: "NDArray[np.float64] | None" = option(
        None, "How often each expert is called (MoE layers x experts), for a plan; default: alike."
    )
    path: str | None = option(None, "The model's file, for the command line.")

    def __post_init__(self) -> None:
        """Raise InputError unless the options can go together."""
        super().__post_init__()
        placing = (self.n_cpu_moe, self.gpu_experts, self.plan)
        if sum(given is not None for given in placing) > 1:
            raise InputError("n_cpu_moe, gpu_experts, plan: give one of them, not several")
