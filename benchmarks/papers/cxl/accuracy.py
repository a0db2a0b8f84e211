"""Table 3 of the paper, added up again: accuracy is an input here, nothing is modelled."""

from statistics import mean

SCORES: dict[str, tuple[float, ...]] = {
    "original": (68.02, 42.48, 64.87, 84.05, 56.83, 85.35, 76.24, 82.43),
    "3 bits, no selector": (67.12, 42.88, 64.34, 83.37, 55.46, 85.02, 76.87, 82.64),
    "3 bits": (66.72, 42.81, 64.08, 83.82, 55.70, 85.57, 77.38, 83.12),
    "2 bits, no selector": (56.64, 34.41, 59.11, 79.16, 50.00, 78.75, 70.95, 78.78),
    "2 bits": (63.31, 40.46, 60.07, 81.35, 53.66, 81.77, 73.09, 79.76),
}
"""MMLU, MathQA, HellaSwag, ARC-E, ARC-C, BoolQ, WinoGrande, PIQA; Mixtral-8x7B, Table 3."""


def drop(bits: int) -> float:
    """Return the points lost against the original, on average."""
    return mean(SCORES["original"]) - mean(SCORES[f"{bits} bits"])


def selector_gain(bits: int) -> float:
    """Return the points gained by the bitwidth selector, on average."""
    return mean(SCORES[f"{bits} bits"]) - mean(SCORES[f"{bits} bits, no selector"])
