"""Spoilt copies of a valid file: bytes, numbers and structures that somebody might send."""

import gzip
import io
import json
import random
import re
import zipfile
from typing import Any

NUMBERS = (
    b"0", b"-1", b"1e999", b"NaN", b"-0.0", b"1.5", b"9" * 30, b"1" + b"0" * 5000, b"true", b"null",
    b"2147483648", b"9223372036854775807", b"9223372036854775808", b"''", b"[]", b"{}",
)  # fmt: skip
"""What may stand in a text in place of a number."""

VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2**31, 2**62, 2**63, 2**64, 10**30, 1.5, 1e308, float("nan"), "", "x",
    "a\0b", "\x1b[31m", "\ud800", [], {}, [[]], [1, "2"], {"": 1}, "9" * 5000,
)  # fmt: skip
"""What may stand in a JSON file in place of any value."""

MOST_BYTES = 2**18

_NUMBER = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Return a copy with one to four changes, half the time inside of what is compressed."""
    if chance.random() < 0.5:
        if seed.startswith(b"\x1f\x8b"):
            return gzip.compress(mutated(gzip.decompress(seed), chance), 1)
        if seed.startswith(b"PK"):
            return _with_member_changed(seed, chance)
    data = seed
    for _ in range(chance.randint(1, 4)):
        data = chance.choice(CHANGES)(data, chance)[:MOST_BYTES]
    return data


def _with_member_changed(archive: bytes, chance: random.Random) -> bytes:
    """Change one file of a zip archive, so that its sum is right all the same."""
    changed = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(changed, "w") as new:
        hit = chance.choice(names := old.namelist())
        for name in names:
            content = old.read(name)
            new.writestr(name, mutated(content, chance) if name == hit else content)
    return changed.getvalue()


def _flip(data: bytes, chance: random.Random) -> bytes:
    if not data:
        return data
    place = chance.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << chance.randrange(8)]) + data[place + 1 :]


def _overwrite(data: bytes, chance: random.Random) -> bytes:
    """Put extreme bytes where a length or an offset may stand."""
    place = chance.randrange(len(data) + 1)
    content = chance.choice((b"\xff", b"\0", b"\x7f", b"\x80")) * chance.choice((1, 4, 8))
    return data[:place] + content + data[place + len(content) :]


def _cut(data: bytes, chance: random.Random) -> bytes:
    return data[: chance.randrange(len(data) + 1)]


def _without(data: bytes, chance: random.Random) -> bytes:
    first, last = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:first] + data[min(last, first + 64) :]


def _twice(data: bytes, chance: random.Random) -> bytes:
    first, last = sorted(chance.randrange(len(data) + 1) for _ in range(2))
    return data[:last] + data[first:last] * chance.choice((1, 2, 50)) + data[last:]


def _number(data: bytes, chance: random.Random) -> bytes:
    if not (found := list(_NUMBER.finditer(data))):
        return _flip(data, chance)
    hit = chance.choice(found)
    return data[: hit.start()] + chance.choice(NUMBERS) + data[hit.end() :]


def _nested(data: bytes, chance: random.Random) -> bytes:
    depth = chance.choice((10, 2000, 100_000))
    place = chance.randrange(len(data) + 1)
    return data[:place] + b"[" * depth + data[place:]


def _value(data: bytes, chance: random.Random) -> bytes:
    """Replace, remove or rename a value of a JSON text, at any depth."""
    try:
        tree = json.loads(data)
    except (ValueError, RecursionError):
        return _number(data, chance)
    holder: Any = {"": tree}
    top, key = holder, ""
    while isinstance(inner := holder[key], dict | list) and inner and chance.random() < 0.8:
        holder = inner
        key = (
            chance.choice(list(inner)) if isinstance(inner, dict) else chance.randrange(len(inner))
        )
    if chance.random() < 0.2 and holder is not top:
        del holder[key]
    elif chance.random() < 0.2 and isinstance(holder, dict) and holder is not top:
        holder[key + "x"] = holder.pop(key)
    else:
        holder[key] = chance.choice(VALUES)
    return json.dumps(top[""]).encode()


CHANGES = (_flip, _overwrite, _cut, _without, _twice, _number, _nested, _value, _value, _value)
