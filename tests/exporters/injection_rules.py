"""What the archived KTransformers does with injection rules, from their description.

A file of rules is a YAML list. Each has `match` with a regular expression for modules' names and
`replace` with a class and its arguments. The first rule that matches a module holds. Only as much
of YAML is read here as such files use: nested maps, double-quoted and plain scalars.
"""

import json
import re
from typing import Any

Rule = dict[str, Any]


def rules(text: str) -> list[Rule]:
    """Return the rules of a file."""
    found = []
    for block in re.split(r"^- ", text, flags=re.MULTILINE)[1:]:
        lines = ("  " + block).rstrip("\n").split("\n")
        value, rest = _mapping(lines, 2)
        assert rest == []
        found.append(value)
    return found


def matched(text: str, name: str, kind: str | None = None) -> Rule | None:
    """Return the first rule that is found in a module's name and asks for no other class."""
    for rule in rules(text):
        asks = rule["match"]
        if asks.get("class") in (None, kind) and re.search(asks["name"], name):
            return rule
    return None


def experts_devices(
    text: str, layers: int, block: str = "mlp", experts: str = "KTransformersExperts"
) -> list[str | None]:
    """Return where each layer's experts generate; None where no rule matches.

    A rule must replace them with the model's class of experts, not look below them, name the
    operators by the device, and prefill and hand over on the GPU.
    """
    devices: list[str | None] = []
    for layer in range(layers):
        rule = matched(text, f"model.layers.{layer}.{block}.experts")
        devices.append(None if rule is None else _device(rule, experts))
    return devices


def _device(rule: Rule, experts: str) -> str:
    assert rule["recursive"] == "False"
    replaced = rule["replace"]
    assert replaced["class"] == f"ktransformers.operators.experts.{experts}"
    arguments = replaced["kwargs"]
    device: str = arguments["generate_device"]
    operators = {"cpu": "KExpertsCPU", "cuda:0": "KExpertsMarlin"}
    assert arguments["generate_op"] == operators[device]
    assert arguments["prefill_op"] == ("None" if experts == "KGlm4Experts" else "KExpertsTorch")
    assert arguments["prefill_device"] == arguments["out_device"] == "cuda:0"
    assert len(arguments) == 5
    return device


def _mapping(lines: list[str], indent: int) -> tuple[Rule, list[str]]:
    """Return the map at this indentation, and the lines after it."""
    found: Rule = {}
    while lines and len(lines[0]) - len(lines[0].lstrip()) == indent:
        key, _, scalar = lines[0].strip().partition(":")
        lines = lines[1:]
        if scalar.strip():
            text = scalar.strip()
            found[key] = json.loads(text) if text.startswith('"') else text
        else:
            found[key], lines = _mapping(lines, indent + 2)
    return found, lines
