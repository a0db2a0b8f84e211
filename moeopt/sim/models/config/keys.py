"""Keys of a ``config.json``: numbers and lists by any of their names, and which have been read."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NoReturn, Self

from moeopt.core.errors import InputError
from moeopt.core.wording import shown

MOST = 2**24


class Keys:
    """The numbers of one configuration, read by any of their names.

    Parameters
    ----------
    path
        The file, for messages.
    data
        The object that holds the keys.
    prefix
        Where that object stands in the file, e.g. "text_config.".
    """

    def __init__(self, path: Path, data: Mapping[str, object], prefix: str = "") -> None:
        self.path, self.data, self.prefix = path, data, prefix
        self.seen: set[str] = set()
        self.parts: dict[str, Self] = {}

    @property
    def model_type(self) -> str:
        """What the file calls the model's class; empty if it does not say."""
        found = self.value("model_type")
        return found if isinstance(found, str) else ""

    def value(self, key: str) -> object:
        """Return what stands under a key, None if nothing; the key counts as read."""
        self.seen.add(key)
        return self.data.get(key)

    def has(self, key: str) -> bool:
        """Return whether a key is there and not null."""
        return self.value(key) is not None

    def inside(self, key: str) -> Self | None:
        """Return the object under a key, or None if there is none."""
        value = self.value(key)
        if value is None:
            return None
        if not isinstance(value, Mapping):
            self.fail((key,), f"must be an object, not {shown(value)}")
        if key not in self.parts:
            self.parts[key] = type(self)(self.path, value, f"{self.prefix}{key}.")
        return self.parts[key]

    def found(self, names: Sequence[str]) -> str:
        """Return the name under which a number stands, or all its names if under none."""
        present = [key for key in names if self.has(key)]
        return present[0] if present else " | ".join(names)

    def fail(self, names: Sequence[str], reason: str) -> NoReturn:
        """Raise InputError for a key: file, key and reason on one line."""
        raise InputError(f"{self.prefix}{self.found(names)}: {reason}", where=self.path)

    def number(self, names: Sequence[str], least: int = 1) -> int:
        """Return a whole number that must be there."""
        value = self.optional(names, least)
        if value is None:
            self.fail(names, "is missing")
        return value

    def optional(self, names: Sequence[str], least: int = 1) -> int | None:
        """Return a whole number, or None if no name has it; all names that do must agree.

        A list of one number per layer counts as that number if it is the same in all layers.
        """
        present = {key: self.whole(key, least) for key in names if self.has(key)}
        if not present:
            return None
        first, value = next(iter(present.items()))
        for key, other in present.items():
            if other != value:
                self.fail((key,), f"is {other} and contradicts {first}, which is {value}")
        return value

    def whole(self, key: str, least: int) -> int:
        """Return the whole number under a key that is there."""
        value = self.data[key]
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail((key,), f"must be an integer, not {shown(value)}")
        if not least <= value <= MOST:
            self.fail((key,), f"must be from {least} to {MOST}, not {value}")
        return value

    def layer_list(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a list of layers, empty if the key is absent."""
        value = self.value(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item < layers
            for item in value
        ):
            self.fail((key,), f"must be a list of layers from 0 to {layers - 1}")
        return tuple(value)

    def by_layer(self, key: str, layers: int) -> tuple[object, ...]:
        """Return a list of one entry per layer, without those of layers that predict further."""
        value = self.value(key)
        if not isinstance(value, list | str) or len(value) < layers:
            self.fail((key,), f"must have an entry for each of {layers} layers")
        return tuple(value[:layers])

    def marks(self, key: str, layers: int) -> tuple[bool, ...]:
        """Return a list of 0 and 1, one per layer, as truths."""
        value = self.value(key)
        given = value[:layers] if isinstance(value, list) else []
        if len(given) < layers or any(item not in (0, 1) for item in given):
            self.fail((key,), f"must be a number, or 0 or 1 for each of {layers} layers")
        return tuple(item == 1 for item in given)

    def frequency(self, key: str, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether a frequency, or a list of 0 and 1, gives it experts."""
        if isinstance(self.value(key), list):
            return self.marks(key, layers)
        step = self.optional((key,)) or 1
        return tuple(layer % step == 0 for layer in range(layers))
