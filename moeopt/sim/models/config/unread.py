"""Keys of a ``config.json`` that are about sizes and that nobody read: they are warned of.

A key that is passed over in silence changes a model without a word, so the rule is by name: what is
called like layers, experts, heads or attention is either read, or known to change no size, or named
in a warning.
"""

import re
import tomllib
import warnings
from collections.abc import Iterator
from pathlib import Path

from moeopt.core.errors import MoeoptWarning
from moeopt.core.wording import shortened
from moeopt.sim.models.config.keys import Keys

DATA: dict[str, list[str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

HARMLESS = frozenset(DATA["harmless"])
"""Keys that change no size that is counted."""

LISTED = 12
"""Most keys that a warning names."""


def _words(key: str, words: list[str]) -> bool:
    """Return whether one of these words stands between the underscores of a key."""
    return re.search(rf"(^|_)({'|'.join(words)})(_|$)", key, re.IGNORECASE) is not None


def is_about_sizes(key: str) -> bool:
    """Return whether a key is about layers, experts, heads or attention, and may change a size."""
    if key in HARMLESS or _words(key, DATA["harmless_words"]):
        return False
    return _words(key, DATA["about"]) or re.search("expert|attention|layer", key) is not None


def unread(keys: Keys) -> Iterator[str]:
    """Yield the keys about sizes that nobody read and that say something, with their place."""
    for key, value in keys.data.items():
        if key in keys.seen or value is None or value in (False, 0, "", [], {}):
            continue
        if is_about_sizes(key):
            yield f"{keys.prefix}{key}"
    for part in keys.parts.values():
        yield from unread(part)


def warn_of_unread(*parts: Keys) -> None:
    """Warn, on one line, of keys about sizes that nobody read.

    Parameters
    ----------
    parts
        The file's objects that have been read from.

    Warns
    -----
    MoeoptWarning
        If there are such keys.
    """
    found = [key for keys in parts for key in unread(keys)]
    if not found:
        return
    listed = ", ".join(shortened(key) for key in found[:LISTED])
    more = f" and {len(found) - LISTED} more" if len(found) > LISTED else ""
    told = "not read; the model may have other sizes than moeopt takes it to have"
    warnings.warn(f"{parts[0].path}: {listed}{more}: {told}", MoeoptWarning, stacklevel=2)
