"""Measured speeds: tables of points, and what llama-bench and llama-sweep-bench write."""

import csv
import io
import math
import re
from dataclasses import dataclass
from pathlib import Path
from types import NoneType

from moeopt.core.errors import InputError, expect
from moeopt.core.untrusted import LONGEST_PLACE, read_bytes, reading
from moeopt.core.wording import shortened
from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.bench_tables import (
    LEAST_SPEED,
    MOST_SPEED,
    SPEEDS,
    BenchTest,
    of_file,
    of_type,
    tests_in,
)
from moeopt.sim.machines.runtimes.context import Context
from moeopt.sim.machines.runtimes.placement import Placement
from moeopt.sim.machines.runtimes.profile import get_runtime
from moeopt.sim.machines.runtimes.setting import Setting
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.models.quantisations import at_bits
from moeopt.sim.presets import get_model

COLUMNS = ("model", "bits", "runtime", "n_cpu_moe", "context", "tokens_per_s")
MOST_BYTES = 2**24
MOST_POINTS = 2000
LONGEST_LINE = 10_000


@dataclass(frozen=True)
class Measurement:
    """Measured speed: one sequence, one token per step.

    Attributes
    ----------
    model
        At the widths that were measured.
    runtime
        As in ``--runtime``.
    n_cpu_moe
        Blocks whose experts the CPU computes, counted as llama.cpp does; None where `gpu_experts`
        says it.
    gpu_experts
        Experts of every layer that are on the GPU, as ktransformers counts.
    context
        Tokens in the KV cache.
    tokens_per_s
        Measured.
    cpu_only
        Whether no GPU took part although the machine may have one.
    threads
        Threads of the CPU; None if unknown.
    """

    model: ModelShape
    runtime: str
    n_cpu_moe: int | None
    gpu_experts: int | None
    context: int
    tokens_per_s: float
    cpu_only: bool = False
    threads: int | None = None

    def on(self, machine: Machine) -> tuple[Setting, Placement]:
        """Return how it was started on a machine, and where things lay."""
        if self.cpu_only:
            machine = machine.without_gpus()
        context, numa = Context.at(self.context), get_runtime(self.runtime).numa
        setting = Setting(machine, self.model, self.runtime, context, numa=numa)
        if self.gpu_experts is not None and machine.gpus:
            return setting, Placement.of_number(setting, self.gpu_experts)
        blocks = self.model.layers if self.n_cpu_moe is None else self.n_cpu_moe
        return setting, Placement.of_blocks(setting, blocks)


def read_measurements(
    path: str | Path,
    *,
    model: str = "",
    bits: str = "",
    runtime: str = "",
    n_cpu_moe: int | None = None,
) -> list[Measurement]:
    r"""Return the measured speeds in a CSV table or in what a benchmark of llama.cpp wrote.

    Parameters
    ----------
    path
        A CSV file with the columns model, bits, runtime, n_cpu_moe, context, tokens_per_s (and
        gpu_experts instead of n_cpu_moe); what llama-bench wrote as Markdown, JSON, JSON lines or
        CSV; or llama-sweep-bench's table. Only tests that generate tokens are read.
    model, bits
        For llama-bench: which model it was, if neither its type nor its file's name say so; for a
        table: what stands in for an empty cell.
    runtime, n_cpu_moe
        For llama-sweep-bench, which writes neither: by default ``ik_llama.cpp``, whose tool it is,
        and the blocks whose experts the CPU computed, which must be given.

    Returns
    -------
    list of Measurement
        In the order of the file.

    Raises
    ------
    InputError
        If the file cannot be read, or a column or a value is missing or wrong: the message names
        file, line, column and what would be right.

    Examples
    --------
    >>> import moeopt, pathlib
    >>> head = "model,bits,runtime,n_cpu_moe,tokens_per_s"
    >>> row = "mixtral-8x7b,Q4_K_M,llama.cpp,16,27.5"
    >>> _ = pathlib.Path("points.csv").write_text("\n".join([head, row]))
    >>> [point.tokens_per_s for point in moeopt.read_measurements("points.csv")]
    [27.5]
    """
    expect("path", path, str, Path, what="a path")
    path = Path(path)
    with reading(path):
        text = read_bytes(path, MOST_BYTES).decode("utf-8-sig")
    expect("n_cpu_moe", n_cpu_moe, int, NoneType, what="a whole number")
    if (tests := tests_in(path, text)) is not None:
        rows, is_sweep = tests
        if not is_sweep:
            return _of_llama_bench(path, rows, model, bits)
        missing = ["--model"] * (not model) + ["--n-cpu-moe"] * (n_cpu_moe is None)
        if missing:
            what = " and ".join(missing)
            raise InputError(f"is llama-sweep-bench's, which does not say {what}", where=path)
        rows = [row.model_copy(update={"n_cpu_moe": n_cpu_moe}) for row in rows]
        return _of_llama_bench(path, rows, model, bits, runtime or "ik_llama.cpp")
    for number, words in enumerate(io.StringIO(text), 1):
        if len(words) > LONGEST_LINE:
            raise InputError(f"line {number}: longer than {LONGEST_LINE} characters", where=path)
    found = []
    table = csv.DictReader(io.StringIO(text))
    try:
        columns = [name.strip() for name in table.fieldnames or ()]
    except csv.Error as error:
        raise InputError(f"line 1: {error}", where=path) from None
    table.fieldnames = columns
    for name in ("tokens_per_s", *(() if model else ("model",))):
        if name not in columns:
            raise InputError(
                f"this column is missing (columns: {', '.join(COLUMNS)})", where=path, field=name
            )
    try:
        for line, row in enumerate(table, start=2):
            if line > MOST_POINTS:
                raise InputError(f"has more than {MOST_POINTS} lines", where=path)
            found.append(_point(f"{path}: line {line}", row, model, bits))
    except csv.Error as error:
        raise InputError(f"{error}", where=path) from None
    if not found:
        raise InputError("there are no points", where=path)
    return found


def _model_at(name: str, bits: str) -> ModelShape:
    """Return a model by name or file, at a width or as a quantisation if one is given."""
    shape = get_model(name)
    return at_bits(shape, bits) if bits else shape


def _point(at: str, row: dict[str, str | None], model: str, bits: str) -> Measurement:
    def cell(name: str, default: str = "") -> str:
        return (row.get(name) or "").strip() or default

    name = cell("model", model)
    if not name:
        raise InputError(f"{at}: model: is missing")
    runtime = cell("runtime", "llama.cpp")
    speed = _number(at, "tokens_per_s", cell("tokens_per_s"))
    if not LEAST_SPEED <= speed <= MOST_SPEED:
        raise InputError(f"{at}: tokens_per_s: must be {SPEEDS}, not {speed:g}")
    on_gpu = cell("gpu_experts")
    try:
        get_runtime(runtime)
        shape = _model_at(name, cell("bits", bits))
    except InputError as error:
        raise InputError(f"{at}: {error}") from None
    blocks = cell("n_cpu_moe")
    return Measurement(
        model=shape,
        runtime=runtime,
        n_cpu_moe=None if on_gpu or not blocks else _whole(at, "n_cpu_moe", blocks),
        gpu_experts=_whole(at, "gpu_experts", on_gpu) if on_gpu else None,
        context=_whole(at, "context", cell("context", "0")),
        tokens_per_s=speed,
    )


def _of_llama_bench(
    path: Path, tests: list[BenchTest], model: str, bits: str, runtime: str = "llama.cpp"
) -> list[Measurement]:
    get_runtime(runtime)
    files, types = ({getattr(t, f"model_{what}") for t in tests} for what in ("filename", "type"))
    if model and (count := max(len(files), len(types))) > 1:
        raise InputError(f"has {count} models; --model can name one only", where=path)
    found = [
        Measurement(
            model=_model_of(path, f"{path}: [{row}]", test, model, bits),
            runtime=runtime,
            n_cpu_moe=_cpu_blocks(f"{path}: [{row}]", test),
            gpu_experts=None,
            context=test.n_depth + test.n_gen // 2,
            tokens_per_s=test.tokens_per_s,
            cpu_only=test.cpu_only,
            threads=test.n_threads or None,
        )
        for row, test in enumerate(tests)
        if test.n_gen and not test.n_prompt  # to read a prompt is another question
    ]
    if not found:
        raise InputError("no test generates tokens only (llama-bench -p 0 -n 128)", where=path)
    return found


ALL_EXPERTS = re.compile(r"[\\.*()a-z_|]{0,60}exps[\\.*()a-z_|]{0,30}=CPU")
"""A pattern of ``-ot`` that puts the experts of all layers on the CPU."""


def _cpu_blocks(at: str, test: BenchTest) -> int | None:
    """Return the blocks whose experts the CPU computes; None for all."""
    pattern = test.tensor_buft_overrides or "none"
    if pattern in ("none", '"none"'):
        return test.n_cpu_moe
    if ALL_EXPERTS.fullmatch(pattern.strip('"')):
        return None
    raise InputError(
        f"{at}: tensor_buft_overrides: of -ot only exps=CPU is read, not {shortened(pattern)!r}"
    )


def _model_of(path: Path, at: str, test: BenchTest, model: str, bits: str) -> ModelShape:
    """Return the model of a test: the one named, its file, or what its type or file's name say."""
    file = test.model_filename
    preset, quantisation = of_type(test.model_type)
    name = model
    if not name:
        beside = _beside(path, file) if file else ""
        name = beside if beside and Path(beside).is_file() else preset or of_file(file) or beside
    try:
        if not name:
            raise InputError(f"{shortened(test.model_type)!r} is no model that is known")
        is_gguf = name.endswith(".gguf")
        return _model_at(name, bits or ("" if is_gguf else quantisation))
    except InputError as error:
        raise InputError(f"{at}: model_filename: {error} (--model says which it is)") from None


def _beside(path: Path, name: str) -> str:
    """Return a model's file as llama-bench was given it, or as it lies beside the results.

    Results come from strangers: nothing but a GGUF file is opened by a name in them.
    """
    if not name.endswith(".gguf") or len(name) > LONGEST_PLACE:
        raise InputError(
            f"{name!r:.80} is no .gguf; --model says which it is",
            where=path,
            field="model_filename",
        )
    return name if Path(name).is_file() else str(path.parent / name)


def _number(at: str, name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{at}: {name}: must be a number, not {text[:40]!r}")
    return value


def _whole(at: str, name: str, text: str) -> int:
    value = _number(at, name, text)
    if value != int(value) or not 0 <= value <= 2**24:
        raise InputError(f"{at}: {name}: must be a whole number from 0, not {text[:40]!r}")
    return int(value)
