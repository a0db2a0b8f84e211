"""An expert in torch: gate, up and down with SiLU, on the CPU or on a CUDA GPU."""

import platform
from importlib import import_module
from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.sim.model_shape import ModelShape
from moeopt.sim.profile.measure import Bench, Settings

ROTATED_BYTES = 512 * 2**20
"""Weights that are worked through before an expert comes again: more than caches hold."""

MOST_COPIES = 64


def torch_bench(model: ModelShape, settings: Settings) -> Bench:
    """Return an expert of a model's size, with random weights, ready to run.

    Raises
    ------
    InputError
        If torch is not installed, sees no GPU, or has no type of the weights' width.
    """
    torch = _torch()
    if settings.device == "gpu" and not torch.cuda.is_available():
        raise InputError("device: gpu: torch sees no CUDA GPU; use --device cpu")
    dtype = {2: torch.bfloat16, 4: torch.float32}.get(model.bytes_per_weight)
    if dtype is None:
        raise InputError(
            f"model {model.name}: bytes_per_weight: must be 2 or 4 to be measured,"
            f" not {model.bytes_per_weight}"
        )
    where = "cuda" if settings.device == "gpu" else "cpu"
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
    experts = _experts(torch, model, where, dtype)
    inputs = {
        tokens: torch.randn(tokens, model.hidden_size, device=where).to(dtype)
        for tokens in settings.tokens
    }
    turn = 0

    def run(tokens: int) -> None:
        nonlocal turn
        gate, up, down = experts[turn % len(experts)]
        turn += 1
        x = inputs[tokens]
        with torch.inference_mode():
            _ = (torch.nn.functional.silu(x @ gate.T) * (x @ up.T)) @ down.T
        if where == "cuda":
            torch.cuda.synchronize()

    name = torch.cuda.get_device_name(0) if where == "cuda" else _cpu_name()
    threads = None if where == "cuda" else int(torch.get_num_threads())
    on = name if threads is None else f"{name} with {threads} threads"
    return Bench(run, on, f"torch {torch.__version__}", threads)


def _torch() -> Any:
    try:
        return import_module("torch")
    except ImportError:
        raise InputError(
            "profile: torch is not installed; install moeopt with the extra that has it:"
            " pip install 'moeopt[torch]'"
        ) from None


def _experts(torch: Any, model: ModelShape, where: str, dtype: Any) -> list[tuple[Any, Any, Any]]:
    """Return copies of an expert that are together larger than the caches, at least two."""
    copies = min(MOST_COPIES, max(2, -(-ROTATED_BYTES // model.expert_bytes)))
    hidden, inner = model.hidden_size, model.expert_intermediate_size
    shapes = ((inner, hidden), (inner, hidden), (hidden, inner))
    generator = torch.Generator(device=where).manual_seed(0)
    return [
        tuple(
            (torch.randn(shape, generator=generator, device=where) * hidden**-0.5).to(dtype)
            for shape in shapes
        )
        for _ in range(copies)
    ]


def _cpu_name() -> str:
    """Return the processor's name as the system gives it."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine() or "unknown CPU"
