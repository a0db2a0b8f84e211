"""JSON files from anywhere: read within bounds, written whole or not at all.

Sizes are bounded before anything is parsed, and nothing in a file is executed or used as a path.
"""

import gzip
import json
import math
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from moeopt.core.errors import InputError, expect
from moeopt.core.untrusted import check_growth, read_bytes, reading
from moeopt.core.wording import field_path, kind_of, shortened, shown

JsonObject = dict[str, Any]
"""An object of JSON: whoever reads a field looks at what it is."""

MAX_FILE_BYTES = 64 * 2**20
"""Largest JSON text that is read, after decompression."""

STDOUT = ("/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")
"""Names of the stdout of whoever opens them."""

MAX_DIGITS = 1000
"""Most digits of an integer, even where any number may stand."""

LONG_NUMBER = re.compile(rf"[0-9]{{{MAX_DIGITS},}}")

SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
"""Beginning of half a character of two escapes; where one is alone, no UTF-8 can hold it."""

NINE_DIGITS = re.compile("[0-9]{9}")


def read_object(path: Path) -> JsonObject:
    """Read a file that holds one JSON object; see `read_json`."""
    data = read_json(path)
    if not isinstance(data, dict):
        raise InputError(f"must hold one JSON object, not {kind_of(data)}", where=path)
    return data


def read_json(path: Path, most: int | None = None) -> Any:
    """Read a file that holds JSON, compressed or not; see `parse`."""
    with reading(path):
        text = read_bytes(path, most or MAX_FILE_BYTES).decode("utf-8-sig")
    return parse(text, str(path))


def parse(text: str, where: str) -> Any:
    """Return the value of a JSON text, refusing NaN, duplicate keys and bottomless nesting."""
    check_growth(text, where)
    if not text.strip():
        raise InputError("is empty, not JSON", where=where)
    refused: list[_Refused] = []

    def refuse(number: str) -> _Refused:
        refused.append(_Refused(number))
        return refused[-1]

    def real(number: str) -> float | _Refused:
        return value if math.isfinite(value := float(number)) else refuse(number)

    def integer(number: str) -> int | _Refused:
        return int(number) if len(number) <= MAX_DIGITS else refuse(number)

    numbers: JsonObject = {
        "parse_constant": refuse,
        "parse_float": real,
        "parse_int": integer if _has_long_number(text) else int,  # int itself is far faster
    }
    try:
        data = json.loads(text, object_pairs_hook=_unique_keys, **numbers)
    except json.JSONDecodeError as error:
        place = f"line {error.lineno} column {error.colno}"
        raise InputError(f"not valid JSON at {place}: {error.msg}", where=where) from None
    except RecursionError:
        raise InputError("not usable: nested too deeply", where=where) from None
    except ValueError as error:  # a duplicate key
        raise InputError(f"not usable: {error}", where=where) from None
    if refused:
        field, number = field_path(_place(refused[0], data)), shortened(refused[0])
        raise InputError(f"must be a number of usable size, not {number}", where=where, field=field)
    if SURROGATE.search(text):
        _check_characters(data, where)
    return data


def _check_characters(data: Any, where: str) -> None:
    """Raise InputError if a text or key has half of a character, which no file can hold."""
    try:
        json.dumps(data, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])[1:-1]
        reason = f"not usable: {half} is half of a character, without its other half"
        raise InputError(reason, where=where) from None


def _has_long_number(text: str) -> bool:
    """Tell whether a text has a number of `MAX_DIGITS` digits; most need not be searched through.

    Of such a number every hundredth character is a digit, too.
    """
    return bool(NINE_DIGITS.search(text[::100]) and LONG_NUMBER.search(text))


def file_stem(name: str) -> str:
    """Return what a file of an instance is called, whose own name a stranger may have chosen."""
    return re.sub(r"[^\w.-]+", "-", name).lstrip(".")


def save(obj: BaseModel | Mapping[str, object], path: str | Path) -> None:
    """Write an instance, a solution or a JSON object, whole or not at all.

    The same object gives the same bytes. A name ending in ``.gz`` is compressed.

    Parameters
    ----------
    obj
        An instance, a solution, a plan, or a JSON object as a mapping.
    path
        The file; an older one of that name is replaced only once the new one is complete.

    Raises
    ------
    InputError
        If `obj` is none of them, or the file cannot be written.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.save({"answer": 42}, "answer.json")
    """
    expect("obj", obj, BaseModel, Mapping, what="an instance, a solution or a mapping")
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    try:
        data = obj.model_dump(mode="json") if isinstance(obj, BaseModel) else obj
        payload = to_json(data).encode()
        if path.suffix == ".gz":
            payload = gzip.compress(payload, mtime=0)
        write_bytes(payload, path)
    except (TypeError, ValueError, RecursionError) as error:  # not JSON: NaN, too deep, a set
        raise InputError(f"cannot be written: {error}", where=path) from None


def check_file(option: str, path: Path) -> None:
    """Raise InputError unless a file can be written to its folder."""
    _check_writable(option, path, path.parent)
    if path.is_dir():
        raise InputError(f"{path}: is a folder", field=option)


def check_folder(option: str, folder: Path) -> None:
    """Make a folder; raise InputError unless files can be written to it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder}: {error.strerror}", field=option) from None
    _check_writable(option, folder, folder)


def _check_writable(option: str, path: Path, folder: Path) -> None:
    """Write and remove a file: permissions do not tell what a file system takes."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".", suffix=".tmp")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}", field=option) from None
    os.close(handle)
    Path(name).unlink()


def write_bytes(payload: bytes, path: Path, mode: int = 0o644) -> None:
    """Replace `path` atomically: a reader sees the old bytes or the new ones, never a part.

    What is no regular file (a pipe) is written to, not replaced; /dev/stdout is `sys.stdout`, as
    the command line's file descriptor 1 leads to nothing (`moeopt.core.native_output`).

    Raises
    ------
    InputError
        If the file cannot be written.
    """
    try:
        if str(path) in STDOUT:
            sys.stdout.buffer.write(payload)
            sys.stdout.flush()
        elif path.exists() and not path.is_file():
            path.write_bytes(payload)
        else:
            _replace(payload, path, mode)
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror}", where=path) from None


def _replace(payload: bytes, path: Path, mode: int) -> None:
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(payload)
        Path(temporary).chmod(mode)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(data: Mapping[str, object]) -> str:
    """Return `data` as JSON text: one line per key, and one per item of a list of objects."""
    lines = []
    for key, value in data.items():
        if isinstance(value, list | tuple) and value and isinstance(value[0], Mapping):
            items = ",\n".join("  " + _compact(item) for item in value)
            text = f"[\n{items}\n ]"
        else:
            text = _compact(value)
        lines.append(f" {_compact(key)}: {text}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


class _Refused(str):
    """A number that cannot be used, as it stands in the file."""


def _place(wanted: object, data: object) -> list[str | int]:
    """Return the path to an object in parsed JSON, without recursion."""
    rest: list[tuple[list[str | int], object]] = [([], data)]
    while True:
        place, value = rest.pop()
        if value is wanted:
            return place
        if isinstance(value, dict):
            rest += [([*place, key], item) for key, item in value.items()]
        elif isinstance(value, list):
            rest += [([*place, row], item) for row, item in enumerate(value)]


def _unique_keys(pairs: Sequence[tuple[str, object]]) -> dict[str, object]:
    data = dict(pairs)
    if len(data) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = next(key for key, count in times.items() if count > 1)
        raise ValueError(f"key {shown(twice)} stands twice in one object")
    return data


def _compact(value: object) -> str:
    return _ENCODER.encode(value)


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
