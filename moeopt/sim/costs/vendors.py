"""Whose GPU it is, by its name: kernels of runtimes differ by it."""

import re
from typing import Literal

Vendor = Literal["amd", "apple", "intel"]
"""NVIDIA's are what all others are compared with."""

NAMES: dict[Vendor, str] = {
    "amd": r"AMD|Radeon|Instinct|FirePro|\bRX ?\d{4}|\bMI\d{2,3}X?\b",
    "apple": r"Apple|\bM[1-9] ?(Pro|Max|Ultra)?$",
    "intel": r"Intel|\bArc\b",
}


def vendor_of(name: str) -> Vendor | None:
    """Return the vendor of a GPU; None for NVIDIA, and where a name says nothing."""
    if re.search(r"NVIDIA|GeForce|\bRTX\b|\bGTX\b|Tesla|Quadro", name, re.IGNORECASE):
        return None
    return next((one for one, words in NAMES.items() if re.search(words, name)), None)
