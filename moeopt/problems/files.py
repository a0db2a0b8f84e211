"""Reading and writing instance and solution files, with errors that name file, field and reason.

The files come from strangers: sizes are bounded before anything is parsed, and nothing in a file is
executed or used as a path.
"""

import gzip
import json
import math
import os
import tempfile
import zlib
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope, SolutionEnvelope
from moeopt.problems.registry import get_problem

MAX_FILE_BYTES = 128 * 2**20
"""Largest JSON text that is read, after decompression."""

MAX_DIGITS = 1000
"""Most digits of an integer, even where any number may stand."""

_PLAIN_REASONS = {
    "missing": "is missing",
    "extra_forbidden": "is not a known key",
    "int_type": "must be an integer",
    "int_from_float": "must be an integer",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
}


def load(path: str | Path) -> InstanceEnvelope:
    """Read an instance from a ``.json`` or ``.json.gz`` file.

    Raises
    ------
    InputError
        If the file cannot be read or is not a valid instance; one line: file, field, reason.
    """
    path = Path(path)
    instance: InstanceEnvelope = _validated(path, "instance", "Instance")
    return instance


def load_solution(path: str | Path) -> SolutionEnvelope:
    """Read a solution from a ``.json`` or ``.json.gz`` file; errors as in `load`."""
    path = Path(path)
    solution: SolutionEnvelope = _validated(path, "solution", "Solution")
    return solution


def save(obj: BaseModel | Mapping[str, Any], path: str | Path) -> None:
    """Write an instance, a solution or a JSON object, whole or not at all.

    The same object gives the same bytes. A name ending in ``.gz`` is compressed.
    """
    path = Path(path)
    try:
        data = obj.model_dump(mode="json") if isinstance(obj, BaseModel) else obj
        payload = to_json(data).encode()
        if path.suffix == ".gz":
            payload = gzip.compress(payload, mtime=0)
        write_bytes(payload, path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {error.strerror}") from None
    except (TypeError, ValueError, RecursionError) as error:  # not JSON: NaN, too deep, a set
        raise InputError(f"{path}: cannot be written: {error}") from None


def write_bytes(payload: bytes, path: Path) -> None:
    """Replace `path` atomically: a reader sees the old bytes or the new ones, never a part."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".tmp")
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(payload)
        Path(temporary).chmod(0o644)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def to_json(data: Mapping[str, Any]) -> str:
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


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def read_object(path: Path) -> dict[str, Any]:
    """Read a file that holds one JSON object, refusing NaN, duplicate keys and oversized files."""
    text = _read_text(path)
    refused: list[_Refused] = []

    def refuse(number: str) -> _Refused:
        refused.append(_Refused(number))
        return refused[-1]

    def real(number: str) -> float | _Refused:
        return value if math.isfinite(value := float(number)) else refuse(number)

    def integer(number: str) -> int | _Refused:
        return int(number) if len(number) <= MAX_DIGITS else refuse(number)

    try:
        data = json.loads(
            text,
            parse_constant=refuse,
            parse_float=real,
            parse_int=integer,
            object_pairs_hook=_unique_keys,
        )
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise InputError(f"{path}: not valid JSON at {where}: {error.msg}") from None
    except RecursionError:
        raise InputError(f"{path}: not usable: nested too deeply") from None
    except ValueError as error:  # a duplicate key
        raise InputError(f"{path}: not usable: {error}") from None
    if refused:
        field, number = _field_path(_place(refused[0], data)), _shortened(refused[0])
        raise InputError(f"{path}: {field}: must be a number of usable size, not {number}")
    if not isinstance(data, dict):
        raise InputError(f"{path}: must hold one JSON object, not {_kind(data)}")
    return data


def _read_text(path: Path) -> str:
    try:
        with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as stream:
            payload = stream.read(MAX_FILE_BYTES + 1)
        if len(payload) > MAX_FILE_BYTES:
            raise InputError(f"{path}: larger than {MAX_FILE_BYTES // 2**20} MiB")
        return payload.decode("utf-8-sig")
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{path}: not a complete gzip file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text at byte {error.start}") from None
    except ValueError as error:  # a NUL in the path
        raise InputError(f"{path}: cannot be read: {error}") from None


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


def _unique_keys(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) < len(pairs):
        times = Counter(key for key, _ in pairs)
        twice = next(key for key, count in times.items() if count > 1)
        raise ValueError(f"key {_shown(twice)} stands twice in one object")
    return data


def _validated(path: Path, module: str, model: str) -> Any:
    data = read_object(path)
    for key in ("problem",) if module == "solution" else ("problem", "schema_version"):
        if key not in data:
            raise InputError(f"{path}: {key}: is missing")
    try:
        problem = get_problem(data["problem"])
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    try:
        return getattr(problem.part(module), model).model_validate(data)
    except ValidationError as error:
        raise InputError(f"{path}: {describe(error)}") from None


def describe(error: ValidationError) -> str:
    """Return the first error of a failed validation as ``field: reason``, and how many more."""
    errors = error.errors(include_url=False)
    first = errors[0]
    field = _field_path([*first["loc"], *first.get("ctx", {}).get("at", ())])
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    return f"{field}: {_reason(first)}{more}"


def _reason(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx", {})
    if kind == "field":
        return str(context["reason"])
    reason = _PLAIN_REASONS.get(kind)
    if reason is None:
        bounds = {"greater_than_equal": ("ge", "at least"), "less_than_equal": ("le", "at most")}
        if kind in bounds:
            key, words = bounds[kind]
            reason = f"must be {words} {context[key]}"
        elif kind == "literal_error":
            reason = f"must be {context['expected']}"
        else:
            reason = str(error["msg"][:1].lower() + error["msg"][1:])
    if kind in ("missing", "extra_forbidden", "too_short", "too_long"):
        return reason
    return f"{reason}, not {_shown(error['input'])}"


def _shown(value: Any) -> str:
    """Return a value as it would stand in the file, shortened, on one line."""
    if isinstance(value, dict | list):
        return _kind(value)
    try:
        text = _compact(value)
    except (TypeError, ValueError):
        text = repr(value)
    return _shortened(text)


def _shortened(text: str) -> str:
    """Return at most 60 characters of a text, with unprintable ones escaped."""
    short = text if len(text) <= 60 else text[:57] + "..."
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in short)


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a string", type(None): "null"}
    return names.get(type(value)) or f"the value {_shown(value)}"


def _field_path(parts: Sequence[str | int]) -> str:
    path = ""
    for part in parts:
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            plain = part.isidentifier() and len(part) <= 60
            shown = part if plain else _shown(part)
            path += f".{shown}" if path else shown
    return path or "the object"
