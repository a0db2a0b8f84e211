"""KTransformers and its baselines run as systems: prompts of Wikitext's lengths, and replies (6.1).

From Fiddler to KTransformers one mechanism after the other, as in Fig. 14. All of them compute
every routed expert on the CPU and all else on the GPU (6.1): what differs is how.
"""

from dataclasses import dataclass, replace
from functools import cache
from typing import Literal

from benchmarks.papers import whole
from benchmarks.papers.ktransformers.fiddler_layer import MODEL
from benchmarks.papers.ktransformers.variants import Kernel, with_kernel
from benchmarks.rooms.sim import Machine, Workload, find, get_model, routing_trace, step_costs
from benchmarks.rooms.systems import (
    KERNEL_SHARES,
    KTransformers,
    Mechanisms,
    Readers,
    Run,
    World,
    execute,
    get_system,
)
from moeopt import get_machine

A100 = "ktransformers-a100"

MODELS = (MODEL, "deepseek-v2.5", "qwen2-57b-a14b")

LENGTHS = (32, 128, 512, 2048, 8192)
"""Tokens of a prompt, from the shortest to the longest of 6.1."""

LONGEST = 8192
"""Of Fig. 14."""

SHORT_PROMPT, REPLY = 32, 512
"""In decoding (6.1)."""

LLAMA_UBATCH = 512
"""Tokens that llama.cpp reads together, its default."""

FIDDLER_LAYER_MS = 5.8
"""Experts of a layer of DeepSeek-V3 on both sockets, one token (2.3)."""

DECODED_LAYERS, STEPS = 4, 2
"""What is executed of decoding; of prompts one layer. They stand for all."""

QUANTUM_NS = 100

Stage = Literal["fiddler", "llama.cpp", "kernels", "dynamic", "sockets", "graph", "deferral"]
"""Fiddler and llama.cpp; then Fiddler with KTransformers' mechanisms, each with those before it.

kernels: fused batches of its own kernels, static blocks of experts. dynamic: parts from a queue.
sockets: tensor parallelism. graph: no launches. deferral: of experts (4), in decoding alone.
"""

FIDDLER = get_system("fiddler").mechanisms
LLAMA = get_system("llama.cpp").mechanisms
FUSED = replace(FIDDLER, cpu_tasks="static")
QUEUED = replace(FUSED, cpu_tasks="dynamic")
SLICED = replace(QUEUED, sockets="tensor-parallel")
OWN = replace(SLICED, launches_per_layer=0, launch_us=0.0)

MECHANISMS: dict[Stage, Mechanisms] = {
    "fiddler": FIDDLER,
    "llama.cpp": LLAMA,
    "kernels": FUSED,
    "dynamic": QUEUED,
    "sockets": SLICED,
    "graph": OWN,
    "deferral": OWN,
}


class Staged(KTransformers):
    """KTransformers with the mechanisms of a stage; all routed experts on the CPU."""

    name = "staged"

    def __init__(self, stage: Stage) -> None:
        super().__init__({})
        self.stage = stage
        self.mechanisms = MECHANISMS[stage]  # type: ignore[misc]

    def on_host(self, world: World) -> World:
        """Return the world with the stage's sockets, and kernels of Fiddler and llama.cpp."""
        kernels = {"fiddler": "oneDNN", "llama.cpp": "AVX-512"}.get(self.stage, "the machine's")
        return world.on_host(self.mechanisms.sockets, KERNEL_SHARES[kernels])

    def defers(self, world: World) -> bool:
        """Tell whether the stage does."""
        return self.stage == "deferral"


@dataclass(frozen=True)
class Case:
    """What is run.

    Attributes
    ----------
    kernel
        The CPU's only kernel under KTransformers' mechanisms; "hybrid": both of them.
    law, seed
        Of the routing.
    """

    model: str = MODEL
    kernel: Kernel = "hybrid"
    law: str = "olmoe-1b-7b"
    seed: int = 0
    prompt: int = LONGEST


@cache
def decode_s(stage: Stage, case: Case) -> float:
    """Return a token's time, behind a prompt of 32 tokens."""
    world, run = _run(stage, replace(case, prompt=SHORT_PROMPT), DECODED_LAYERS)
    return whole.decode_s(world, run)


@cache
def prefill_s(stage: Stage, case: Case) -> float:
    """Return the time of a prompt."""
    return whole.prefill_s(*_run(stage, case, 1))


def _run(stage: Stage, case: Case, layers: int) -> tuple[World, Run]:
    """Return the world and the run of a stage."""
    model = get_model(case.model).quantized(16, 16)
    machine = with_kernel(get_machine(A100), case.kernel)
    if stage == "fiddler":
        machine = with_framework(machine)
    law = find("workloads", Workload, case.law)
    tokens = case.prompt + 2 * STEPS
    trace = routing_trace(
        law, model.routed_experts, model.top_k, layers, tokens, case.seed, batch=1
    )
    world = World(
        costs=step_costs(machine, model),
        batch=1,
        prompt=case.prompt,
        output=REPLY,
        layers=layers,
        slots=0,
        ubatch=LLAMA_UBATCH if stage == "llama.cpp" else case.prompt,
        quantum_ns=QUANTUM_NS,
    )
    run = execute(Staged(stage), world, Readers.of(trace, model, 1, case.prompt, STEPS))
    if run.state is None:
        raise RuntimeError("the run has no state")
    return run.state.world, run


def with_framework(machine: Machine) -> Machine:
    """Return the machine on which each expert on the CPU takes Fiddler's framework as well.

    What remains of the stated 5.8 ms beside eight reads of evenly spread pages, an eighth for each.
    """
    model = get_model(MODEL)
    read_s = step_costs(machine, model, numa="interleaved").cpu_read_s("striped")
    each_us = 1e3 * FIDDLER_LAYER_MS / model.top_k - 1e6 * read_s
    nodes = [node.with_part("cpu", kernel_us=each_us) for node in machine.nodes]
    return machine.with_devices(*nodes)
