"""What llama-bench and llama-sweep-bench print, in any of their formats, as llama-bench's tests."""

import csv
import io
import re
import tomllib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Annotated

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject, parse
from moeopt.core.wording import input_error, shortened

MOST_TESTS = 2000
LONGEST_LINE = 20_000

DATA: dict[str, dict[str, str]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text())

NAMES = DATA["columns"]
"""Column of llama-bench's Markdown table -> key of its JSON."""

MOST_NUMBER, EVERY_LAYER = 2**24, 2**16
LEAST_SPEED, MOST_SPEED = 1e-6, 1e7
SPEEDS = f"from {LEAST_SPEED:g} to {MOST_SPEED:g} tokens/s"
"""From twelve days for a token to more than any machine reads."""


def _whole(value: object) -> object:
    """Return a whole number, which is text in the cell of a table."""
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= MOST_NUMBER:
        raise PydanticCustomError("field", "{reason}", {"reason": "must be a whole number"})
    return value


def _layers(value: object) -> object:
    """Return a number of layers; newer versions write -1 or -2 for all."""
    return EVERY_LAYER if value in (-1, -2, "-1", "-2") else _whole(value)


def _speed(value: object) -> object:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not LEAST_SPEED <= float(str(value)) <= MOST_SPEED:
        reason = f"must be numbers {SPEEDS}"
        raise PydanticCustomError("field", "{reason}", {"reason": reason})
    return value


Whole = Annotated[int, BeforeValidator(_whole)]
Speed = Annotated[float, BeforeValidator(_speed)]


class BenchTest(BaseModel):
    """A test with the names of ``llama-bench -o json``; other keys are not read."""

    model_config = ConfigDict(frozen=True, coerce_numbers_to_str=True)

    model_filename: str = ""
    model_type: str = ""
    n_prompt: Whole = 0
    n_gen: Whole = 0
    n_depth: Whole = 0
    n_gpu_layers: Annotated[int, BeforeValidator(_layers)] = 0
    n_cpu_moe: Whole = 0
    n_threads: Whole = 0
    tensor_buft_overrides: str | None = None
    backends: str = Field("", validation_alias=AliasChoices("backends", "gpu_info"))
    avg_ts: Speed
    samples_ts: tuple[Speed, ...] = Field((), max_length=MOST_TESTS)

    @property
    def tokens_per_s(self) -> float:
        """Median of the repetitions, which one disturbed repetition does not move."""
        return float(median(self.samples_ts or (self.avg_ts,)))

    @property
    def cpu_only(self) -> bool:
        """Whether no GPU took part."""
        return self.n_gpu_layers == 0 or self.backends in ("CPU", "BLAS", "")


def _test(at: str, row: object) -> BenchTest:
    if not isinstance(row, dict) or "avg_ts" not in row:
        raise InputError("avg_ts: is missing; this is no output of llama-bench", where=at)
    try:
        return BenchTest.model_validate(row)
    except ValidationError as error:
        raise input_error(error, at) from None


_TEST = re.compile(r"(?:pp(\d{1,8}))?\+?(?:tg(\d{1,8}))?(?: *@ *d(\d{1,8}))?")
_GPU_LAYERS = re.compile(r"n_gpu_layers = (-?\d{1,5})\b")
_THREADS = re.compile(r"n_threads = (\d{1,5})\b")


def tests_in(path: Path, text: str) -> tuple[list[BenchTest], bool] | None:
    """Return the tests in a text, and whether llama-sweep-bench made them; None if it has none.

    Raises
    ------
    InputError
        If a row lacks a cell or has a wrong one: the message names the line.
    """
    start = text.lstrip()[:1]
    if start == "[":
        tests = parse(text, str(path))
        if not isinstance(tests, list):
            raise InputError("must be a list of tests, as llama-bench -o json writes", where=path)
        found = _few(path, (_test(f"{path}: [{row}]", one) for row, one in enumerate(tests)))
    elif start == "{":
        found = _few(path, _json_lines(path, text))
    elif (heads := _table_heads(text)) is not None:
        number, names = heads
        if "S_TG t/s" in names:
            return _few(path, _sweep(path, text, number, names)), True
        found = _few(path, _markdown(path, text, number, names))
    elif "avg_ts" in text.partition("\n")[0]:
        found = _few(path, _csv(path, text))
    else:
        return None
    return found, False


def _few(path: Path, tests: Iterator[BenchTest]) -> list[BenchTest]:
    """Return tests unless they are too many, of which no more are made."""
    found = [*islice(tests, MOST_TESTS + 1)]
    if len(found) > MOST_TESTS:
        raise InputError(f"has more than {MOST_TESTS} tests", where=path)
    return found


def _json_lines(path: Path, text: str) -> Iterator[BenchTest]:
    """Yield the objects of ``llama-bench -o jsonl``, one a line."""
    for number, line in enumerate(io.StringIO(text), 1):
        if not line.strip():
            continue
        at = f"{path}: line {number}"
        test = parse(line, at)
        if not isinstance(test, dict) or not {"avg_ts", "n_gen"} & {*test}:
            raise InputError(
                "must be a list of tests, as llama-bench -o json writes, or one a line (-o jsonl)",
                where=path,
            )
        yield _test(at, test)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _table_heads(text: str) -> tuple[int, list[str]] | None:
    """Return the number of the line with the heads of a table of speeds in Markdown, and they."""
    for number, line in enumerate(io.StringIO(text), 1):
        if line.lstrip().startswith("|") and len(line) <= LONGEST_LINE:
            names = _cells(line)
            if "S_TG t/s" in names or {"test", "t/s"} <= {*names}:
                return number, names
    return None


def _rows(
    path: Path, text: str, start: int, names: list[str]
) -> Iterator[tuple[str, dict[str, str]]]:
    """Yield where each row of a Markdown table stands, and its cells by head."""
    for number, line in enumerate(io.StringIO(text), 1):
        if number <= start or not line.lstrip().startswith("|"):
            continue
        if len(line) > LONGEST_LINE:
            raise InputError(f"line {number}: longer than {LONGEST_LINE} characters", where=path)
        cells = _cells(line)
        if not cells[0].strip("-: ") or cells == names:
            continue  # the line under the heads, or those again
        if len(cells) != len(names):
            raise InputError(
                f"line {number}: has {len(cells)} cells, not {len(names)} as the heads", where=path
            )
        yield f"{path}: line {number}", dict(zip(names, cells, strict=True))


def _markdown(path: Path, text: str, start: int, names: list[str]) -> Iterator[BenchTest]:
    """Yield the tests of ``llama-bench -o md``."""
    for at, row in _rows(path, text, start, names):
        named = _TEST.fullmatch(row["test"])
        if named is None or not row["test"]:
            said = shortened(row["test"])
            raise InputError(f"{at}: test: must be as tg128 or pp512 @ d4096, not {said!r}")
        prompt, generated, depth = (int(count or 0) for count in named.groups())
        test: JsonObject = {NAMES.get(name, name): cell for name, cell in row.items()}
        speed = re.match(r"\d{1,9}(?:\.\d{1,6})?(?= ?±|$)", row["t/s"])
        if speed is None:
            raise InputError(f"{at}: t/s: must be as 62.11 ± 0.30, not {row['t/s']!r:.60}")
        test |= {"n_prompt": prompt, "n_gen": generated, "n_depth": depth}
        test["avg_ts"] = float(speed[0])
        if "n_gpu_layers" not in test and test.get("backends") not in ("CPU", "BLAS"):
            test["n_gpu_layers"] = -1
        yield _test(at, test)


def _csv(path: Path, text: str) -> Iterator[BenchTest]:
    """Yield the tests of ``llama-bench -o csv``."""
    try:
        for number, row in enumerate(csv.DictReader(io.StringIO(text)), 2):
            at = f"{path}: line {number}"
            if None in row or None in row.values():
                raise InputError(f"{at}: has more or fewer cells than the heads")
            test: JsonObject = {name.strip(): cell for name, cell in row.items()}
            try:
                test["avg_ts"] = float(test["avg_ts"])
            except (KeyError, ValueError):
                raise InputError(f"{at}: avg_ts: must be a number") from None
            yield _test(at, test)
    except csv.Error as error:
        raise InputError(f"{error}", where=path) from None


def _sweep(path: Path, text: str, start: int, names: list[str]) -> Iterator[BenchTest]:
    """Yield the tests of llama-sweep-bench: tokens generated behind ``N_KV`` of context.

    Layers on the GPU and threads stand in a line before the table, if it was pasted, too.
    """
    layers, threads = _GPU_LAYERS.search(text), _THREADS.search(text)
    common = {"n_gpu_layers": int(layers[1]) if layers else -1, "backends": "unknown"}
    common["n_threads"] = int(threads[1]) if threads else 0
    for at, row in _rows(path, text, start, names):
        test: JsonObject = {"n_gen": row.get("TG", ""), "n_depth": row.get("N_KV", ""), **common}
        if not re.fullmatch(r"\d{1,9}(\.\d{1,6})?", row["S_TG t/s"]):
            raise InputError(f"{at}: S_TG t/s: must be a number, not {row['S_TG t/s']!r:.60}")
        yield _test(at, test | {"avg_ts": float(row["S_TG t/s"])})


TYPES = DATA["types"]
"""What llama.cpp calls a model's type -> the preset of those sizes."""

_MIX = {"large": "_L", "medium": "_M", "small": "_S"}
_TYPE = re.compile(r"(.{1,60}?) (I?Q\d\w{0,6}|BF16|F16|F32|MXFP4)(?: MoE| - .{1,30})?")
_FILE = re.compile(
    r"(.{1,150}?)[-_.](?:UD-)?(?:I?Q\d\w{0,10}|BF16|F16|MXFP4)(?:-\d{5}-of-\d{5})?\.gguf",
    re.IGNORECASE,
)


def of_type(said: str) -> tuple[str | None, str]:
    """Return preset and quantisation of a model's type: ``qwen3moe 30B.A3B Q4_K - Medium``."""
    found = _TYPE.fullmatch(said[:200])
    if found is None:
        return None, ""
    mix = next((short for long, short in _MIX.items() if f" - {long}" in said.lower()), "")
    bits = found[2] + (mix if re.fullmatch(r"I?Q[3-6]_K", found[2]) else "")
    return TYPES.get(found[1]), "MXFP4_MOE" if bits == "MXFP4" else bits


def of_file(said: str) -> str:
    """Return the model that a GGUF file's name says; nothing if it says none."""
    found = _FILE.fullmatch(re.split(r"[/\\]", said[:1000])[-1][:250])
    return found[1] if found else ""
