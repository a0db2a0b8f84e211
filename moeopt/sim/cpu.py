"""CPUs: kernels that change with the tokens per expert, threads, sockets and their memories."""

from typing import Annotated, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, ValidationInfo, field_validator

from moeopt.problems.envelope import Frozen, field_error
from moeopt.sim.curve import Curve

Positive = Annotated[float, Field(strict=True, gt=0, le=1e9, allow_inf_nan=False)]
NonNegative = Annotated[float, Field(strict=True, ge=0, le=1e9, allow_inf_nan=False)]
Fraction = Annotated[float, Field(strict=True, gt=0, le=1, allow_inf_nan=False)]
Threads = Annotated[int, Field(strict=True, ge=1, le=65536)]

Placement = Literal["tensor-parallel", "interleaved", "one-socket"]


class FewTokenKernel(Frozen):
    """A kernel that is used instead of the CPU's main one at or below a number of tokens.

    KTransformers 3.2 uses AVX-512 instead of AMX at or below four tokens per expert.
    """

    name: str
    max_tokens: Annotated[int, Field(strict=True, ge=1, le=2**20)]
    tflops: Curve


class Numa(Frozen):
    """Sockets with a memory each (KTransformers 2.3 and 3.3).

    Parameters
    ----------
    sockets
        How many.
    local_gb_s, cross_socket_gb_s
        What a socket reads from its own memory and from another's.
    placement
        "tensor-parallel": each socket holds its slice of every expert and reads locally (3.3).
        "interleaved": the weights are spread evenly and every socket reads evenly from all, one
        after the other: a NUMA-oblivious program (2.3). "one-socket": one computes, locally.
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
        local = 1 / self.sockets
        seconds_per_gb = local / self.local_gb_s + (1 - local) / self.cross_socket_gb_s
        return self.sockets / seconds_per_gb


class Cpu(Frozen):
    """A CPU; `tflops` is what its kernels reach at a number of tokens per expert.

    Parameters
    ----------
    kernel
        Name of the main kernel, to which `tflops` belongs, e.g. "AMX".
    few_token_kernels
        Kernels used instead of it for few tokens, by rising `max_tokens`.
    threads
        How many compute.
    bandwidth_efficiency
        Fraction of the memory's bandwidth that its kernels reach; by default 1.
    numa
        Its sockets. Without it the CPU reads with the bandwidth of the machine's DRAM.
    """

    name: str
    tflops: Curve
    kernel: str | None = None
    few_token_kernels: Annotated[tuple[FewTokenKernel, ...], Field(max_length=16)] = ()
    threads: Threads | None = None
    bandwidth_efficiency: Fraction | None = None
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

    def rate_tflops(self, tokens: ArrayLike) -> NDArray[np.float64]:
        """Return the rate at each token count, of the kernel used there."""
        count = np.asarray(tokens)
        rate = self.tflops(count)
        for kernel in reversed(self.few_token_kernels):
            rate = np.where(count <= kernel.max_tokens, kernel.tflops(count), rate)
        return np.asarray(rate, dtype=float)

    def kernel_at(self, tokens: int) -> str:
        """Return the name of the kernel used at a token count."""
        for kernel in self.few_token_kernels:
            if tokens <= kernel.max_tokens:
                return kernel.name
        return self.kernel or "main"
