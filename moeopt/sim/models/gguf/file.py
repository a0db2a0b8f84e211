"""The header of a GGUF file: metadata and the table of tensors, never the weights.

The layout is that of ggml's ``docs/gguf.md``, versions 2 and 3, little-endian. A file is untrusted:
every length is checked against the bytes that are left before anything is read, what is kept in
memory is bounded, and so is the number of items over all shards, hence the time. The package `gguf`
makes an object of every string of a vocabulary, which takes seconds and hundreds of MiB, and needs
the tensors' bytes, which the first megabytes of a file lack.
"""

import math
import re
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, NoReturn

from moeopt.core.errors import InputError
from moeopt.core.untrusted import reading
from moeopt.core.wording import shown
from moeopt.sim.models.gguf.types import TYPES, TensorType

MAGIC = b"GGUF"

MAX_ITEMS = 2**20
"""Most keys, strings and tensors of all shards together; gpt-oss has 650,000."""

MAX_KEPT_BYTES, ENTRY_BYTES = 2**22, 64
"""Most bytes of metadata and names that are kept, and what each counts beside its text; lists of
strings (vocabularies) are skipped."""

MAX_HEADER_BYTES = 2**27
"""Most bytes before the tensors of all shards together; gpt-oss has 13 MB."""

MAX_NAME, MAX_TEXT, MAX_NUMBERS = 2**10, 2**12, 2**12
"""Longest key or name, and longest text and list of numbers that are kept, not skipped."""

MAX_TENSORS, MAX_AXES, MAX_SHARDS = 2**16, 4, 1024

MAX_ALIGNMENT = 2**20

Value = int | float | str | bool | tuple[int | float | bool, ...]

SCALARS = {
    **{0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "<?"},
    **{10: "<Q", 11: "<q", 12: "<d"},
}
"""A value's type in the file -> how it is packed."""

STRING, ARRAY = 8, 9

LENGTH = struct.Struct("<Q")

CHUNK_BYTES = 2**20

SHARD = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})(\.gguf)", re.DOTALL)


@dataclass(frozen=True)
class Tensor:
    """A row of the table of tensors.

    Attributes
    ----------
    shape
        The fastest axis first, as GGML has it: a matrix from n to m numbers is (n, m).
    begin, size
        Where its bytes lie in the file `path`, and how many they are.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    begin: int
    size: int
    path: Path

    @property
    def weights(self) -> int:
        """How many numbers it has."""
        return math.prod(self.shape)


@dataclass(frozen=True)
class Gguf:
    """The header of a GGUF file, or of all its shards; metadata are those of the first."""

    path: Path
    metadata: dict[str, Value]
    tensors: tuple[Tensor, ...]


def is_gguf(path: Path) -> bool:
    """Return whether a file begins as GGUF files do, or is called like one."""
    with reading(path), path.open("rb") as stream:
        return stream.read(4) == MAGIC or path.suffix.lower() == ".gguf"


def read_gguf(path: str | Path, *, weights: bool = True) -> Gguf:
    """Read metadata and the table of tensors of a GGUF file.

    Parameters
    ----------
    path
        A file, or any shard ``...-00001-of-0000N.gguf``: then all of them are read.
    weights
        Whether the tensors' bytes must be there; if not, the first megabytes of a file will do.

    Raises
    ------
    InputError
        If it is no such file, is truncated, contradicts itself, lacks a shard, or is larger than
        the limits of this module; one line that names the file and the place.
    """
    path, budget = Path(path), ReadBudget()
    parts = SHARD.fullmatch(path.name)
    if parts is None:
        one = _read(path, budget, weights)
        if one.metadata.get("split.count", 1) not in (0, 1):
            reason = f"is one of {shown(one.metadata['split.count'])} shards, not called like one"
            raise InputError(f"{path}: {reason}, -00001-of-0000N.gguf")
        return one
    count = int(parts[3])
    if not 1 <= int(parts[2]) <= count <= MAX_SHARDS:
        raise InputError(f"{path}: must be shard 1 to N of N, at most {MAX_SHARDS}, by its name")
    names = [f"{parts[1]}-{number:05}-of-{count:05}{parts[4]}" for number in range(1, count + 1)]
    shards = []
    for number, name in enumerate(names):
        file = path.with_name(name)
        with reading(file):
            if not file.is_file():
                raise InputError(f"{file}: is missing, shard {number + 1} of {count}")
        shards.append(_read(file, budget, weights))
        stated = [shards[-1].metadata.get(f"split.{key}") for key in ("no", "count")]
        if stated != [number, count]:
            found = " and ".join(shown(value) for value in stated)
            reason = f"must be {number} and {count} by the file's name, not {found}"
            raise InputError(f"{file}: split.no, split.count: {reason}")
    return _joined(path, shards)


def _joined(path: Path, shards: list[Gguf]) -> Gguf:
    tensors = tuple(tensor for shard in shards for tensor in shard.tensors)
    seen: dict[str, Tensor] = {}
    for tensor in tensors:
        if (other := seen.setdefault(tensor.name, tensor)) is not tensor:
            raise InputError(f"{tensor.path}: {shown(tensor.name)}: is in {other.path.name}, too")
    metadata = shards[0].metadata
    stated = metadata.get("split.tensors.count", len(tensors))
    if stated != len(tensors):
        reason = f"is {shown(stated)}, the shards have {len(tensors)}"
        raise InputError(f"{shards[0].path}: split.tensors.count: {reason}")
    return Gguf(path, metadata, tensors)


@dataclass
class ReadBudget:
    """What the shards of a model may still have together."""

    items: int = MAX_ITEMS
    kept: int = MAX_KEPT_BYTES
    bytes: int = MAX_HEADER_BYTES

    def spend(self, where: str, items: int, kept: int = 0) -> None:
        """Take from the budget, or raise InputError."""
        self.items -= items
        self.kept -= kept
        if self.items < 0:
            raise InputError(f"{where}: more than {MAX_ITEMS} keys, strings and tensors in all")
        if self.kept < 0:
            raise InputError(f"{where}: more than {MAX_KEPT_BYTES // 2**20} MiB of metadata")


@dataclass
class Cursor:
    """A place in a file that knows how many bytes are left."""

    path: Path
    stream: BinaryIO
    left: int
    budget: ReadBudget
    at: str = "header"
    size: int = field(init=False)

    def __post_init__(self) -> None:
        """Remember how long the file is."""
        self.size = self.left

    @property
    def position(self) -> int:
        """Bytes from the beginning of the file."""
        return self.size - self.left

    def fail(self, reason: str) -> NoReturn:
        """Raise InputError with file and place."""
        raise InputError(f"{self.path}: {self.at}: {reason}")

    def need(self, size: int) -> None:
        """Refuse a length that is longer than what is left of the file."""
        if size > self.left:
            self.fail(f"needs {size} bytes, the file ends after {self.left} (truncated?)")
        self.left -= size
        self.budget.bytes -= size
        if self.budget.bytes < 0:
            self.fail(f"more than {MAX_HEADER_BYTES // 2**20} MiB before the tensors")

    def take(self, size: int) -> bytes:
        """Return the next bytes."""
        self.need(size)
        found = self.stream.read(size)
        if len(found) < size:
            self.fail("the file ends within it")
        return found

    def skip(self, size: int) -> None:
        """Leave bytes out."""
        self.need(size)
        self.stream.seek(size, 1)

    def number(self, packed: str) -> int:
        """Return an integer of a type that `struct` knows."""
        value: int = struct.unpack(packed, self.take(struct.calcsize(packed)))[0]
        return value

    def text(self, most: int) -> str:
        """Return a string of at most so many bytes."""
        length = self.number("<Q")
        if length > self.left:
            self.need(length)
        if length > most:
            self.fail(f"a name of {length} bytes, above {most}")
        try:
            return self.take(length).decode()
        except UnicodeDecodeError:
            self.fail("not UTF-8 text")


def _read(path: Path, budget: ReadBudget, weights: bool) -> Gguf:
    with _cursor(path, budget) as cursor:
        if cursor.left < 24 or cursor.take(4) != MAGIC:
            raise InputError(f"{path}: not a GGUF file")
        version = cursor.number("<I")
        if version not in (2, 3):
            swapped = version in (2 << 24, 3 << 24)
            known = "big-endian files are not read" if swapped else "known are 2 and 3"
            cursor.fail(f"GGUF version {version}; {known}")
        tensors, keys = cursor.number("<Q"), cursor.number("<Q")
        # the shortest key and tensor have a name of no bytes, a type, and one value or axis
        if tensors > min(MAX_TENSORS, cursor.left // 32) or keys > cursor.left // 13:
            cursor.fail(f"{tensors} tensors and {keys} keys cannot be in {cursor.left} bytes")
        budget.spend(str(path), tensors + keys)
        metadata = dict(_metadata(cursor, keys))
        rows = [_row(cursor, index) for index in range(tensors)]
        placed = _placed(cursor, rows, _alignment(cursor, metadata), weights)
        return Gguf(path, metadata, tuple(placed))


@contextmanager
def _cursor(path: Path, budget: ReadBudget) -> Iterator[Cursor]:
    with reading(path), path.open("rb", buffering=2**18) as stream:
        yield Cursor(path, stream, path.stat().st_size, budget)


def _metadata(cursor: Cursor, keys: int) -> Iterator[tuple[str, Value]]:
    seen = set()
    for index in range(keys):
        cursor.at = f"key {index}"
        key = cursor.text(MAX_NAME)
        cursor.at = shown(key)
        if key in seen:
            cursor.fail("is there twice")
        seen.add(key)
        cursor.budget.spend(f"{cursor.path}: {cursor.at}", 0, len(key) + ENTRY_BYTES)
        value = _value(cursor, cursor.number("<I"))
        if value is not None:
            yield key, value


def _value(cursor: Cursor, kind: int) -> Value | None:
    """Return a value, or None if it is left out as it is long or a list of strings."""
    if kind in SCALARS:
        packed = SCALARS[kind]
        value: int | float | bool = struct.unpack(packed, cursor.take(struct.calcsize(packed)))[0]
        return value
    if kind == STRING:
        length = cursor.number("<Q")
        if length > MAX_TEXT:
            cursor.skip(length)
            return None
        cursor.budget.spend(f"{cursor.path}: {cursor.at}", 0, length)
        try:
            return cursor.take(length).decode()
        except UnicodeDecodeError:
            cursor.fail("not UTF-8 text")
    if kind != ARRAY:
        cursor.fail(f"value type {kind} is not known")
    kind, count = cursor.number("<I"), cursor.number("<Q")
    if kind == STRING:
        _skip_strings(cursor, count)
        return None
    if kind not in SCALARS:
        nested = "a list of lists" if kind == ARRAY else f"a list of value type {kind}"
        cursor.fail(f"{nested} is not known")
    size = struct.calcsize(SCALARS[kind])
    if count > MAX_NUMBERS:
        cursor.skip(count * size)
        return None
    payload = cursor.take(count * size)
    cursor.budget.spend(f"{cursor.path}: {cursor.at}", 0, 8 * count)
    return tuple(item for (item,) in struct.iter_unpack(SCALARS[kind], payload))


def _skip_strings(cursor: Cursor, count: int) -> None:
    if count > cursor.left // 8:
        cursor.fail(f"{count} strings cannot be in {cursor.left} bytes (truncated?)")
    cursor.budget.spend(f"{cursor.path}: {cursor.at}", count)
    # a vocabulary is most of a header: one loop over what was read ahead, without calls per string
    chunk, at = b"", 0
    for _ in range(count):
        if at + 8 > len(chunk):
            cursor.need(at)
            at = 0
            cursor.stream.seek(cursor.position)
            chunk = cursor.stream.read(CHUNK_BYTES)
            if len(chunk) < 8:
                cursor.fail(
                    f"a string begins at byte {cursor.position}, the file has {cursor.size}"
                )
        at += 8 + LENGTH.unpack_from(chunk, at)[0]
    cursor.need(at)
    cursor.stream.seek(cursor.position)


def _row(cursor: Cursor, index: int) -> tuple[str, tuple[int, ...], TensorType, int]:
    """Return name, shape, type and offset of a tensor."""
    cursor.at = f"tensor {index}"
    name = cursor.text(MAX_NAME)
    cursor.at = shown(name)
    cursor.budget.spend(f"{cursor.path}: {cursor.at}", 0, len(name) + ENTRY_BYTES)
    axes = cursor.number("<I")
    if not 1 <= axes <= MAX_AXES:
        cursor.fail(f"must have 1 to {MAX_AXES} axes, not {axes}")
    shape = struct.unpack(f"<{axes}Q", cursor.take(8 * axes))
    kind, offset = cursor.number("<I"), cursor.number("<Q")
    if kind not in TYPES:
        cursor.fail(f"tensor type {kind} is not known")
    if 0 in shape:
        cursor.fail("has an axis of length 0")
    return name, shape, TYPES[kind], offset


def _alignment(cursor: Cursor, metadata: dict[str, Value]) -> int:
    alignment = metadata.get("general.alignment", 32)
    powers = [2**power for power in range(MAX_ALIGNMENT.bit_length())]
    if type(alignment) is not int or alignment not in powers:
        cursor.at = "general.alignment"
        cursor.fail(f"must be a power of 2 up to {MAX_ALIGNMENT}, not {shown(alignment)}")
    return alignment


def _placed(
    cursor: Cursor,
    rows: list[tuple[str, tuple[int, ...], TensorType, int]],
    alignment: int,
    weights: bool,
) -> Iterator[Tensor]:
    """Yield the tensors in the order of the file; each must lie within it, and on no other's."""
    begin = -(-cursor.position // alignment) * alignment
    end, names = 0, set()
    for name, shape, kind, offset in sorted(rows, key=lambda row: row[3]):
        cursor.at = shown(name)
        if name in names:
            cursor.fail("is there twice")
        names.add(name)
        row_size = kind.row_size(shape[0])
        if row_size is None:
            cursor.fail(f"rows of {shape[0]} are no whole blocks of {kind.name}")
        size = math.prod(shape[1:]) * row_size
        if offset % alignment or offset < end:
            cursor.fail(f"offset {offset} is not aligned, or within the tensor before")
        end = offset + size
        if weights and begin + end > cursor.size:
            held = max(0, cursor.size - begin - offset)
            cursor.fail(f"has {size} bytes, of which the file holds {held} (truncated?)")
        yield Tensor(name, shape, kind, begin + offset, size, cursor.path)
