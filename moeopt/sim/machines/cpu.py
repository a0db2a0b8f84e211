"""CPUs: kernels that change with the tokens per expert, threads, sockets and their memories."""

from typing import Annotated, Literal, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.core.envelope import Frozen, Name, field_error
from moeopt.sim.machines.curve import Curve

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Threads = Annotated[int, Field(strict=True, ge=1, le=65536)]

Placement = Literal["tensor-parallel", "interleaved", "one-socket", "one-computes"]


class FewTokenKernel(Frozen):
    """A kernel that is used instead of the CPU's main one at or below a number of tokens.

    KTransformers 3.2 uses AVX-512 instead of AMX at or below four tokens per expert.
    """

    name: Name
    max_tokens: Annotated[int, Field(strict=True, ge=1, le=2**20)]
    tflops: Curve


class Numa(Frozen):
    """Sockets with a memory each (KTransformers 2.3 and 3.3).

    Placements: "tensor-parallel": each socket holds its slice of every expert and reads locally
    (3.3). "interleaved": the weights are spread evenly and every socket reads evenly from all, one
    after the other: a NUMA-oblivious program (2.3). "one-socket": one computes, locally.
    "one-computes": spread evenly, but one socket's threads read, as on Windows, where a process has
    one group of 64 threads. What each field means: `moeopt machine fields`.
    """

    sockets: Annotated[int, Field(strict=True, ge=1, le=64)]
    local_gb_s: Positive
    cross_socket_gb_s: Positive
    placement: Placement

    @property
    def read_gb_s(self) -> float:
        """What all sockets that compute read together, in GB/s."""
        if self.placement == "one-socket":
            return self.local_gb_s
        if self.placement == "tensor-parallel":
            return self.sockets * self.local_gb_s
        return self.spread_gb_s

    @property
    def spread_gb_s(self) -> float:
        """What the sockets that compute read of weights spread evenly over all, in GB/s."""
        local = 1 / self.sockets
        seconds_per_gb = local / self.local_gb_s + (1 - local) / self.cross_socket_gb_s
        return (1 if self.placement == "one-computes" else self.sockets) / seconds_per_gb


class Cpu(Frozen):
    """A CPU; `tflops` is what its kernels reach at a number of tokens per expert.

    `few_token_kernels` are used instead of the main one, by rising `max_tokens`. What each field
    means, its unit and where to find it: `moeopt machine fields`.
    """

    name: Name
    tflops: Curve
    kernel: str | None = None
    few_token_kernels: Annotated[tuple[FewTokenKernel, ...], Field(max_length=16)] = ()
    threads: Threads | None = None
    bandwidth_gb_s: Positive | None = None
    bandwidth_efficiency: Fraction | None = None
    kernel_us: NonNegative | None = None
    numa: Numa | None = None

    @field_validator("few_token_kernels")
    @classmethod
    def _crossovers_rise(
        cls, kernels: tuple[FewTokenKernel, ...], info: ValidationInfo
    ) -> tuple[FewTokenKernel, ...]:
        for row in range(1, len(kernels)):
            if kernels[row].max_tokens <= kernels[row - 1].max_tokens:
                raise field_error([row, "max_tokens"], "must be above that of the kernel before")
        return kernels

    def of_cores(self, share: float) -> Self:
        """Return the CPU with so many times the cores: the rates of all its kernels follow."""

        def scaled(curve: Curve) -> Curve:
            points = tuple((x, y * share) for x, y in curve.points)
            return curve.model_copy(update={"points": points})

        few = tuple(
            kernel.model_copy(update={"tflops": scaled(kernel.tflops)})
            for kernel in self.few_token_kernels
        )
        return self.model_copy(update={"tflops": scaled(self.tflops), "few_token_kernels": few})

    def rate_tflops(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the rate at each token count, of the kernel used there."""
        count = np.asarray(tokens)
        rate = self.tflops(count)
        for kernel in reversed(self.few_token_kernels):
            rate = np.where(count <= kernel.max_tokens, kernel.tflops(count), rate)
        return np.asarray(rate, dtype=float)
