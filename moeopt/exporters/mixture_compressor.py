"""Bits of every expert as Mixture-Compressor keeps them: ``{layer: {expert: bits}}``.

It pickles that dict. A pickle is a program, so the same is written as JSON, whose keys are text.
"""

from pathlib import Path
from typing import Any

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.models import hidden_layers
from moeopt.exporters.slots import as_json
from moeopt.problems.json_files import read_object


def export(job: Job) -> Exported:
    """Return the widths of a bitwidth plan.

    Layers have the model's numbers where the model is known, and count from 0 otherwise.
    """
    instance: Any = job.instance
    plan: Any = job.solution
    known = job.shape is not None
    layers = len(instance.layers)
    numbers = hidden_layers(job, layers) if known else tuple(range(layers))
    bits = {
        str(number): {
            str(expert.expert): width for expert, width in zip(layer.experts, widths, strict=True)
        }
        for number, layer, widths in zip(numbers, instance.layers, plan.bits, strict=True)
    }
    counted = "by the model's layers" if known else "from 0 over the layers with experts"
    return Exported(as_json(bits), None, {"layers_counted": counted})


def read_mixture_compressor(path: Path) -> dict[int, dict[int, int]]:
    """Return layer -> expert -> bits."""
    found: dict[int, dict[int, int]] = {}
    for layer, experts in read_object(path).items():
        if not layer.isdecimal() or not isinstance(experts, dict):
            raise InputError(f"{path}: {layer!r}: must be the experts of a layer")
        for expert, width in experts.items():
            if not expert.isdecimal() or type(width) is not int:
                raise InputError(f"{path}: {layer}.{expert!r}: must be the bits of an expert")
        found[int(layer)] = {int(expert): width for expert, width in experts.items()}
    return found
