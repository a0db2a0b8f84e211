"""What reading an expert and computing a token take on a GPU, fitted to measured kernels.

``python benchmarks/studies/replication_kernel.py fit --data DIR`` fits them to half of the measured
configurations and holds them to the other half: the fullest rank's time is a launch, which all
configurations share, and the larger of readings and tokens. Source of the measurements:
github.com/ai-dynamo/aiconfigurator at 095f58a, ``systems/data`` (Apache-2.0): TensorRT-LLM
1.3.0rc10, experts in FP8 by CUTLASS, two to 256 ranks of H100, 1 to 16,384 tokens.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class KernelTimes:
    """Times per million of an expert's weights; `launch_ns` is the same whatever is decided."""

    launch_ns: int
    read_ps_per_thousand: int
    token_ps_per_million: int

    def of(self, hidden: int, intermediate: int) -> tuple[int, int]:
        """Return `read_ns` and `token_ns` of experts with three matrices of this shape."""
        weights = 3 * hidden * intermediate
        read = self.read_ps_per_thousand * weights // 10**6
        return max(1, read), max(1, self.token_ps_per_million * weights // 10**9)


KERNELS = {
    "h100-fp8": KernelTimes(launch_ns=38_610, read_ps_per_thousand=389, token_ps_per_million=5_541)
}
"""Fitted times by device and format."""
