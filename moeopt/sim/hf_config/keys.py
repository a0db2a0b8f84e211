"""The keys of a stranger's ``config.json``: aliases, types and contradictions, each by name."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from moeopt.errors import InputError
from moeopt.problems.wording import shown

EXPERTS = (
    "num_experts",
    "n_routed_experts",
    "num_local_experts",
    "moe_num_experts",
    "num_routed_experts",
)
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

    def __init__(self, path: Path, data: Mapping[str, Any], prefix: str = "") -> None:
        self.path, self.data, self.prefix = path, data, prefix

    def has(self, key: str) -> bool:
        """Return whether a key is there and not null."""
        return self.data.get(key) is not None

    def found(self, names: Sequence[str]) -> str:
        """Return the name under which a number stands, or all its names if under none."""
        present = [key for key in names if self.has(key)]
        return present[0] if present else " | ".join(names)

    def fail(self, names: Sequence[str], reason: str) -> NoReturn:
        """Raise InputError for a key: file, key and reason on one line."""
        raise InputError(f"{self.path}: {self.prefix}{self.found(names)}: {reason}")

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
        present = {key: self._whole(key, least) for key in names if self.has(key)}
        if not present:
            return None
        first, value = next(iter(present.items()))
        for key, other in present.items():
            if other != value:
                self.fail((key,), f"is {other} and contradicts {first}, which is {value}")
        return value

    def _whole(self, key: str, least: int) -> int:
        value = self.data[key]
        if isinstance(value, list) and value and all(item == value[0] for item in value):
            value = value[0]
        if isinstance(value, bool) or not isinstance(value, int):
            self.fail((key,), f"must be an integer, not {shown(value)}")
        if not least <= value <= MOST:
            self.fail((key,), f"must be from {least} to {MOST}, not {value}")
        return value

    def experts(self) -> int:
        """Return the number of routed experts; a model without any is refused."""
        value = self.optional(EXPERTS, least=0)
        if value is None:
            self.fail(EXPERTS, "is missing; a model without experts has nothing to place")
        if value < 2:
            self.fail(EXPERTS, f"must be at least 2, not {value}: the model has no experts")
        return value

    def layer_list(self, key: str, layers: int) -> tuple[int, ...]:
        """Return a list of layers, empty if the key is absent."""
        value = self.data.get(key)
        if value is None:
            return ()
        if not isinstance(value, list) or not all(
            isinstance(item, int) and not isinstance(item, bool) and 0 <= item < layers
            for item in value
        ):
            self.fail((key,), f"must be a list of layers from 0 to {layers - 1}")
        return tuple(value)

    def frequency(self, key: str, layers: int) -> tuple[bool, ...]:
        """Return for each layer whether a frequency, or a list of 0 and 1, gives it experts."""
        value = self.data.get(key)
        if isinstance(value, list):
            if len(value) != layers or any(item not in (0, 1) for item in value):
                self.fail((key,), f"must be a number, or 0 or 1 for each of {layers} layers")
            return tuple(item == 1 for item in value)
        step = self.optional((key,)) or 1
        return tuple(layer % step == 0 for layer in range(layers))
