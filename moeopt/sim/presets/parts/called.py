"""Parts by the names that tools print and people say, as ``NVIDIA GeForce RTX 4090`` or ``9950x``.

A name is compared without vendors, trade marks and signs; a size at its end (``12GB``) chooses
among cards of one name, of which the one without a size is the usual.
"""

import re
import tomllib
from functools import cache
from pathlib import Path

from moeopt.sim.presets.parts.known import gpu_names, gpu_part, host_names, host_part

LONGEST = 200
"""No name of a part is longer."""

_VENDOR = re.compile(
    r"\((?:r|tm)\)|[®™]|\b(?:nvidia|geforce|amd|ati|intel|radeon|instinct|tesla|quadro|apple|"
    r"graphics|gpu|generation|cpu|processor|oam|blackwell)\b",
    re.IGNORECASE,
)
_SIZE = re.compile(r"[ -]?(\d{1,3}) ?gi?b?$", re.IGNORECASE)
_SERIES = re.compile(r"^(?:rtx|gtx|rx|arcpro|arc)(?=[a-z]{0,3}\d)")


def plain(said: str) -> str:
    """Return a name without vendors and signs, in small letters: ``rtx4060laptop``."""
    text = _VENDOR.sub(" ", said[:LONGEST]).lower().replace("mobile", "laptop")
    return re.sub(r"[^a-z0-9]", "", text)


def size_of(said: str) -> tuple[str, float | None]:
    """Return a name without the memory at its end, and that memory in GiB."""
    found = _SIZE.search(said.strip())
    return (said.strip()[: found.start()], float(found[1])) if found else (said.strip(), None)


def gpu_called(reported: str, memory_gib: float | None = None) -> str | None:
    """Return the name of the GPU that a tool or a person calls so, if it is one of ours.

    Parameters
    ----------
    reported
        As nvidia-smi, rocm-smi or torch call it, or shorter: ``4090``, ``rtx 3060 12GB``.
    memory_gib
        What a tool says of its memory: of cards that share a name it chooses the nearest.
    """
    said = reported.strip()
    without, size = size_of(said)
    spellings = _spellings()
    found = spellings.get(plain(said)) or spellings.get(plain(without))
    wanted = memory_gib or (size if plain(said) not in spellings else None)
    if found is None or wanted is None:
        return found
    return min(_same_card(found), key=lambda name: (abs(_memory(name) - wanted), name))


def _memory(name: str) -> float:
    return gpu_part(name).memory.capacity_gib or 0.0


def _same_card(name: str) -> list[str]:
    """Return the parts that differ in their memory only."""
    card = size_of(name)[0]
    return [other for other in gpu_names() if size_of(other)[0] == card]


@cache
def _spellings() -> dict[str, str]:
    """Return plain spelling -> GPU: whole names first, then those without their series."""
    whole: dict[str, str] = {}
    for name in gpu_names():
        for said in (*gpu_part(name).reported_names, name):
            whole.setdefault(plain(said), name)
    for name in gpu_names():  # a card of which only sizes have names: the smallest
        whole.setdefault(plain(size_of(name)[0]), min(_same_card(name), key=_memory))
    short = {_SERIES.sub("", said): name for said, name in reversed(whole.items())}
    return short | whole


HOSTS: dict[str, str] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())["hosts"]
"""Short name of a CPU -> as lscpu would print it, which the patterns of hosts are about."""


def host_called(reported: str) -> str | None:
    """Return the name of the host whose CPU is called so, if it is one of ours.

    Parameters
    ----------
    reported
        As lscpu calls it, or shorter: ``9950x``, ``epyc-9355``, ``i9-14900k``, ``8480+``.
    """
    said = reported.strip()[:LONGEST]
    tried = [said]
    for short, full in HOSTS.items():
        if found := re.fullmatch(short, said, re.IGNORECASE):
            model = next(group for group in found.groups() if group)
            tried.append(full.format(_cased(model)))
    for text in tried:
        for name in host_names():
            if re.search(host_part(name).pattern, text):
                return name
    return None


def _cased(model: str) -> str:
    """Return a model as vendors write it: ``9950X``, but ``i9-14900K`` and ``w9-3495X``."""
    text = re.sub(r"^(i[3579])[ -]?", r"\1-", model.lower())
    text = re.sub(r"^ultra[ -]?(\d)[ -]?", r"Ultra \1 ", text)
    if text[:1] in ("i", "w"):
        return text[:3] + text[3:].upper()
    if text.startswith("Ultra"):
        return text[:7] + text[7:].upper()
    return re.sub(r" ?V(?=[34]$)", " v", text.upper())
