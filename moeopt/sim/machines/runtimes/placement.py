"""Placements: the device of each layer's attention, and of each layer's experts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike

from moeopt.core.errors import InputError, expect
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.plan import Plan

GPU, HOST = "gpu", "host"
"""All GPUs together, and all nodes together, as a setting spreads weights over them."""


class Share(NamedTuple):
    """Any so many experts of a layer."""

    experts: int


Experts = Mapping[str, tuple[int, ...] | Share]
"""Device -> its experts of a layer: their numbers, or how many."""


@dataclass(frozen=True)
class Placement:
    """Where a model lies.

    Attributes
    ----------
    attention
        The device of each layer's attention: `GPU` or `HOST`.
    experts
        The experts on each device, of each layer that has some.
    """

    attention: tuple[str, ...]
    experts: tuple[Experts, ...]

    @classmethod
    def of_blocks(cls, setting: Setting, n_cpu_moe: int) -> Self:
        """Return llama.cpp's ``--n-cpu-moe N``: experts of the first `n_cpu_moe` blocks on the CPU.

        Blocks are counted as llama.cpp counts them: those without experts too, which have nothing
        to move. Without a GPU the CPU has all.
        """
        if not 0 <= n_cpu_moe <= 4096:
            raise InputError(f"must be from 0 to 4096, not {n_cpu_moe}", field="n_cpu_moe")
        model = setting.model
        if not setting.machine.gpus:
            n_cpu_moe = model.layers
        every = Share(model.routed_experts)
        rows = ({HOST if layer < n_cpu_moe else GPU: every} for layer in model.moe_layers)
        return cls(_attention(setting), tuple(rows))._of(setting)

    @classmethod
    def of_number(cls, setting: Setting, gpu_experts: int) -> Self:
        """Return ktransformers' ``--kt-num-gpu-experts N``: so many experts of every layer."""
        most = setting.model.routed_experts
        if not 0 <= gpu_experts <= most:
            raise InputError(f"must be from 0 to {most}, not {gpu_experts}", field="gpu_experts")
        row = {GPU: Share(gpu_experts), HOST: Share(most - gpu_experts)}
        return cls(_attention(setting), (row,) * len(setting.model.moe_layers))._of(setting)

    @classmethod
    def of_plan(cls, setting: Setting, plan: Plan) -> Self:
        """Return where a plan's residents lie: on the GPU, and all others on the host."""
        expect("plan", plan, Plan, what="a plan, from moeopt.load_plan")
        layers, experts = len(setting.model.moe_layers), setting.model.routed_experts
        placed = plan.resident
        if placed is None or len(placed) != layers:
            got = "none" if placed is None else len(placed)
            raise InputError(f"plan {plan.name}: resident: must be of {layers} layers, not {got}")
        if any(e >= experts for residents in placed for e in residents):
            raise InputError(f"plan {plan.name}: resident: an expert is not below {experts}")
        rows = (
            {GPU: tuple(own), HOST: tuple(e for e in range(experts) if e not in {*own})}
            for own in placed
        )
        return cls(_attention(setting), tuple(rows))._of(setting)

    def blocks(self, setting: Setting) -> int | None:
        """Return the blocks up to the last whose experts the host has; None where layers are split.

        Without a GPU those are all, those without experts too.
        """
        if any(len(row) > 1 for row in self.experts):
            return None
        if not setting.machine.gpus:
            return setting.model.layers
        rows = zip(setting.model.moe_layers, self.experts, strict=True)
        return max((layer + 1 for layer, row in rows if HOST in row), default=0)

    @property
    def gpu_experts(self) -> int | None:
        """How many experts of every layer the GPU has; None where not that alone is said."""
        found = {row.get(GPU) for row in self.experts if len(row) > 1}
        only = found.pop() if len(found) == 1 else None
        return only.experts if isinstance(only, Share) else None

    def host_calls(
        self, setting: Setting, popularity: Sequence[Sequence[float]] | ArrayLike | None = None
    ) -> tuple[float, ...]:
        """Return the expected share of a token's experts on the host, for each layer with experts.

        Parameters
        ----------
        popularity
            MoE layers x experts: how often each is called, in any unit; by default all equally.
        """
        layers, experts = len(setting.model.moe_layers), setting.model.routed_experts
        weights = np.ones((layers, experts)) if popularity is None else np.asarray(popularity)
        if weights.shape != (layers, experts):
            shape = " x ".join(map(str, weights.shape))
            raise InputError(f"must be {layers} x {experts}, not {shape}", field="popularity")
        found = []
        for row, where in zip(weights, self.experts, strict=True):
            here, total = where.get(GPU, Share(0)), row.sum()
            if isinstance(here, Share):
                found.append(1.0 - here.experts / experts)
            else:
                share = 1.0 - float(row[list(here)].sum() / total) if total else 1.0
                found.append(max(0.0, share))
        return tuple(found)

    def _of(self, setting: Setting) -> Self:
        """Return the placement; InputError if the machine lacks a device that has experts."""
        machine = setting.machine
        placed = {at for row in self.experts for at, own in row.items() if _count(own)}
        for at, there, name in ((GPU, machine.gpus, "gpu"), (HOST, machine.nodes, "cpu")):
            if at in placed and not there:
                said = f"{name}: is missing; experts on it are asked for"
                raise InputError(f"machine {machine.name}: {said}")
        return self


def _attention(setting: Setting) -> tuple[str, ...]:
    return (GPU if setting.machine.gpus else HOST,) * setting.model.layers


def _count(experts: tuple[int, ...] | Share) -> int:
    return experts.experts if isinstance(experts, Share) else len(experts)
