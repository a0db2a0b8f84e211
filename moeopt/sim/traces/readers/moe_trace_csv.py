"""What ``llama-moe-trace`` records, the tool of a fork of llama.cpp: ``pos,layer,id,id,...``.

One line per token and layer, no header. Positions of a prompt are negative, those of decoded tokens
count from 0; prompts of several batches have their first batch nearest to 0. Files of several runs
may stand one after the other. Of a prompt the last layer may be recorded for its last token only,
as the runtime computes no more of it: the other tokens then have no experts there.
"""

import re
from pathlib import Path

import numpy as np

from moeopt.core.errors import InputError
from moeopt.core.wording import shown
from moeopt.sim.traces.readers.checked import checked_trace, layer_facts, smallest
from moeopt.sim.traces.readers.limits import MAX_EXPERT, MAX_LAYER, MAX_TOKENS, read_lines
from moeopt.sim.traces.trace import NO_EXPERT, Trace

LINE = re.compile(r"-?[0-9]{1,9}(?:,[0-9]{1,9}){2,}")

MAX_IDS = 2**28
"""Most tokens x layers x experts of a token."""


def is_moe_trace(head: bytes) -> bool:
    """Tell by a file's first bytes whether it is such a recording, not a table of counts.

    Either the first line is of a prompt and has two experts or more, or it has four or more, which
    are more columns than any table of counts. Others are read where the format is named.
    """
    first = head.split(b"\n", 1)[0].decode("ascii", "replace").strip()
    columns = first.count(",") + 1
    return LINE.fullmatch(first) is not None and columns > (3 if first.startswith("-") else 5)


def read_moe_trace(path: Path, top_k: int | None = None) -> Trace:
    """Read a recording; see `moeopt.load_trace`."""
    tokens: list[dict[int, list[int]]] = []
    decoded: list[bool] = []
    lengths: list[int] = []
    now: dict[int, dict[int, list[int]]] = {}
    before, width = 0, None
    for number, text in read_lines(path):
        where = f"{path}: line {number}"
        pos, layer, ids = _line(text, where)
        width = len(ids) if width is None else width
        if len(ids) != width:
            raise InputError(f"{where}: {len(ids)} experts, and {width} in the lines before")
        again = pos in now and layer in now[pos]
        if not lengths or again or (pos < 0 <= before):
            now = {}
            lengths.append(0)
        if pos not in now:
            now[pos] = {}
            tokens.append(now[pos])
            decoded.append(pos >= 0)
            lengths[-1] += 1
        now[pos][layer] = ids
        before = pos
    if width is None:
        raise InputError(f"{path}: holds no tokens")
    layers = sorted({layer for token in tokens for layer in token})
    if len(tokens) * len(layers) * width > MAX_IDS:
        raise InputError(f"{path}: {len(tokens)} tokens of {len(layers)} layers are too many")
    row_of = {layer: row for row, layer in enumerate(layers)}
    found = np.full((len(tokens), len(layers), width), NO_EXPERT, dtype=np.int32)
    for row, token in enumerate(tokens):
        for layer, ids in token.items():
            found[row, row_of[layer]] = ids
    return checked_trace(
        path,
        smallest(found),
        seq_len=np.array(lengths),
        decode=np.array(decoded),
        facts={"format": "moe-trace-csv"} | layer_facts(layers),
    )


def _line(text: str, where: str) -> tuple[int, int, list[int]]:
    """Return position, layer and experts of a line."""
    if LINE.fullmatch(text.strip()) is None:
        raise InputError(f"{where}: must be pos,layer,id,id,..., not {shown(text)}")
    pos, layer, *ids = map(int, text.split(","))
    for name, value, high in (
        ("pos", abs(pos), MAX_TOKENS),
        ("layer", layer, MAX_LAYER),
        ("id", max(ids), MAX_EXPERT),
    ):
        if value > high:
            raise InputError(f"{where}: {name}: must be at most {high}, not {value}")
    return pos, layer, ids
