"""Hostile files on the command line: ``python -m tests.fuzz.hostile [READER...]`` prints a table.

Every reader gets files of 16 MiB that are as dear as their author could think of, small ones that
expand, and what is no file at all; stores get cells that moeopt did not write. Each is read by the
whole command in a process of its own (a fork of one that has imported the command, so that only the
files cost). It must refuse the file: exit code 2, one line, at most 400 MiB and 10 CPU seconds.
"""

import argparse
import gzip
import io
import json
import os
import resource
import shutil
import signal
import sqlite3
import struct
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz.readers import READERS
from tests.gguf_files import text

MOST_BYTES = 2**24

MOST_MIB, MOST_S = 400, 10

LONGEST_LINE = 1000
"""Longest message."""

MACHINE = "rtx4090+ryzen-am5"

COMMANDS = {
    "trace": ("trace", "info", "FILE"),
    "counts": ("trace", "info", "FILE"),
    "instance": ("solve", "FILE", "--work-limit", "0.01"),
    "solution": ("check", "INSTANCE", "FILE"),
    "machine": ("machine", "show", "FILE"),
    "model": ("predict", "--machine", MACHINE, "--bits", "Q4_K_M", "--model", "FILE"),
    "published": ("convert", "FORMAT", "FILE", "OUT.npz"),
    "losses": (
        *("generate", "bitwidth", "--model", "mixtral-8x7b"),
        *("--weight", "none", "--loss-table", "FILE", "--out", "OUT"),
    ),
    "measurements": ("calibrate", "--machine", MACHINE, "--points", "FILE", "--out", "OUT"),
    "campaign": ("gap", "FILE"),
    "store": ("report", "FILE", "--out", "OUT"),
    "sol": ("check", "INSTANCE", "FILE"),
    "plan": ("predict", "--machine", MACHINE, "--model", "glm-4.5-air", "--plan", "FILE"),
    "certificate": ("certificate", "check", "INSTANCE", "FILE"),
    "submission": ("check", "FILE"),
    "workload": (
        *("simulate", "--machine", MACHINE, "--model", "mixtral-8x7b", "--policy", "gpu-only"),
        *("--layers", "1", "--steps", "1", "--workload", "FILE"),
    ),
}
"""By the first part of a reader's name: the command that reads its files."""

PROGRAMS = {"published": "benchmarks.traces", "submission": "instances.tools"}
"""By the first part of a reader's name: the module whose command it is, where not `moeopt`."""

ON_COMMAND_LINE = [name for name in READERS if name.partition("-")[0] in COMMANDS]

FILLERS = {
    "zeros": b"\0", "lists": b"[],", "lists of one": b"[1],", "objects": b'{"a":0},', "depth": b"[",
    "numbers": b"1,", "digits": b"9", "texts": b'"ab",', "lines": b"0,0,1\n", "tabs": b"1\t",
    "blanks": b" ", "parts": b"a.a.a.", "bytes": b"\xff",
}  # fmt: skip
"""What a valid file is filled up with in its middle."""

CELLS: tuple[Any, ...] = (
    None, -1, 2**63 - 1, 1e308, "", "x", "\x1b[31m", "[" * 10**5, "9" * 5000, "{}", "null",
    b"", b"\xff", gzip.compress(bytes(2**25)), gzip.compress(b"[" * 10**6),
)  # fmt: skip
"""What may stand in a cell of a store in place of what moeopt wrote."""


def _lines(form: str) -> bytes:
    """Return 16 MiB of lines with a number that counts up."""
    found = "".join(form.format(n) for n in range(MOST_BYTES // len(form.format(""))))
    return found[: found.rindex("\n", 0, MOST_BYTES) + 1].encode()


def _counts() -> bytes:
    rows = (f"{n >> 16},{n & 65535},1\n" for n in range(MOST_BYTES // 10))
    return ("layer,expert,count\n" + "".join(rows)).encode()


def _wide_counts() -> bytes:
    return "".join(f"{layer},65535,1\n" for layer in range(4096)).encode()


def _archive(name: str, content: bytes, how: int) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", how, compresslevel=1) as archive:
        archive.writestr(name, content)
    return stream.getvalue()


def _npz() -> bytes:
    """Return 15 MiB of noise and an array of 256 MiB that hardly takes room beside it."""
    ids = np.tile(np.arange(8, dtype=np.int16), (2**21, 8, 1))
    stream = io.BytesIO()
    np.savez_compressed(stream, topk_ids=ids, noise=np.random.default_rng(0).bytes(15 * 2**20))
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    ids = np.zeros((2**21, 8), dtype=np.uint8)
    np.save(stream, np.append(ids[:-8], ids[:8] - 1))
    return stream.getvalue()


def _pickle() -> bytes:
    return _archive("a/data.pkl", b"\x80\x02(" + b"]" * (MOST_BYTES - 300) + b"l.", 0)


def _keys() -> bytes:
    rows = b"".join(text(f"k{n}") + struct.pack("<II", 4, n) for n in range(2**19))
    return b"GGUF" + struct.pack("<IQQ", 3, 0, 2**19) + rows


def _long_rows(row: str, begin: str, end: str) -> bytes:
    """Return 16 MiB of a text with rows, wrong at the end."""
    rows = row * ((MOST_BYTES - len(begin) - len(end)) // len(row))
    return (begin + rows + end + "!").encode()


def _usage() -> bytes:
    layers = (f'"{layer}":{{"65535":1}}' for layer in range(4096))
    return ("{" + ",".join(layers) + "}").encode()


def _bytes_as_counts() -> bytes:
    """Return 16 million numbers of a byte, one of them wrong."""
    stream = io.BytesIO()
    numbers = np.ones((2**6, 2**6, 2**12 - 1), dtype=np.int8)
    numbers[-1, -1, -1] = -5
    np.save(stream, numbers)
    return stream.getvalue()


def _map_of_far_experts() -> bytes:
    record = '{"step":%d,"expert_load":[[1,2]],"p2l_map":[[0,65535]]}\n'
    return "".join(record % n for n in range(MOST_BYTES // 64)).encode()


_ROUTE = '{{"type":"route","req_id":0,"token_idx":{},"layer":0,"topk_ids":[1]}}\n'

DEAR: dict[str, dict[str, Callable[[], bytes]]] = {
    "counts-array-npy": {"bytes": _bytes_as_counts},
    "counts-lists-json": {"pairs": lambda: _long_rows("[1,2],", "[", "[1]]")},
    "counts-usage-json": {"far experts": _usage},
    "counts-jsonl": {
        "steps": lambda: _lines('{{"step":{},"expert_load":[[1,2]]}}\n') + b"!",
        "far experts": _map_of_far_experts,
    },
    "counts-wide-csv": {
        "rows": lambda: b"layer,e0,e1\n" + _lines("{},1,1\n") + b"!",
        "columns": lambda: ("layer," + ",".join(f"e{n}" for n in range(60000)) + "\n").encode(),
    },
    "trace-route-restarted": {"passes": lambda: _ROUTE.format(0).encode() * 240_000 + b"!"},
    "published-moe-trace-csv": {
        "tokens": lambda: _lines("{},0,1,2,3,4\n") + b"!",
        "runs": lambda: b"0,1,1,2,3,4\n" * (MOST_BYTES // 12) + b"!",
        "sparse": lambda: "".join(f"{n},{n % 4096},1,2,3,4\n" for n in range(800_000)).encode(),
    },
    "counts-csv": {"experts": lambda: _counts() + b"!", "wide": _wide_counts},
    "published-esft-txt": {
        "one line": lambda: b"1\t" * (MOST_BYTES // 2),
        "many lines": lambda: b"1\t\t1\n" * (MOST_BYTES // 5) + b"!",
    },
    "trace-npz": {"expands": _npz},
    "published-exflow-npy": {"ids": _npy},
    "trace-pt": {"lists": _pickle},
    "trace-route-jsonl": {"tokens": lambda: _lines(_ROUTE) + b"!"},
    "published-moe-balance-jsonl": {
        "batches": lambda: _lines('{{"layer":0,"batch_id":{},"topk_experts":[[1]]}}\n') + b"!"
    },
    "model-gguf": {"keys": _keys},
    "sol": {
        "names": lambda: b"# Gurobi\n" + _lines("x{} 1\n") + b"!",
        "a long number": lambda: b"# Objective value = 1" + b"0" * 65_000 + b"\n",
    },
}
"""What is dear to a single reader: as many things as go into 16 MiB, wrong at the end."""


@dataclass(frozen=True)
class Case:
    """A hostile file and how it is read."""

    reader: str
    kind: str
    file: str
    write: Callable[[Path], object]
    may_be_read: bool = False


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    code: int
    lines: tuple[str, ...]
    seconds: float
    mib: int
    is_read: bool

    @property
    def fault(self) -> str:
        """What is wrong with that; nothing if it is as it must be."""
        found = [] if self.is_read else [f"exit {self.code}"][: self.code != 2]
        if not self.is_read and [
            len(line) <= LONGEST_LINE and line.isprintable() for line in self.lines
        ] != [True]:
            found.append(f"{len(self.lines)} lines: {self.lines[-1][:200] if self.lines else ''!r}")
        found += [f"{self.seconds:.1f} s"] if self.seconds > MOST_S else []
        found += [f"{self.mib} MiB"] if self.mib > MOST_MIB else []
        return ", ".join(found)


def cases(name: str) -> Iterator[Case]:
    """Yield the cases of a reader."""
    reader = READERS[name]
    seed = reader.seed()
    for kind, content in contents(reader.file, seed):
        read = name == "model-config" and "rows" in kind  # of a class that is one too many
        yield Case(name, kind, reader.file, _whole(content), read)
    for kind, dear in DEAR.get(name, {}).items():
        yield Case(name, kind, reader.file, _whole(dear))
    for kind, write in NO_FILES.items():
        yield Case(name, kind, reader.file, write)
    if name == "store":
        for number, (table, column) in enumerate(_columns(seed)):
            for cell in (CELLS[(2 * number + n) % len(CELLS)] for n in range(2)):
                kind = f"{table}.{column} = {cell!r:.20}"
                yield Case(name, kind, reader.file, _edited(table, column, cell), may_be_read=True)


def contents(file: str, seed: bytes) -> Iterator[tuple[str, Callable[[], bytes]]]:
    """Yield what hostile files of a kind hold, wrong at the latest behind what is dear."""
    pack = partial(gzip.compress, compresslevel=1) if file.endswith(".gz") else bytes
    plain = gzip.decompress(seed) if file.endswith(".gz") else seed
    for kind, part in FILLERS.items():
        yield kind, partial(_filled, plain, part, pack)
    if many_rows(plain, 1) is not None:
        yield "rows", lambda: pack(many_rows(plain, MOST_BYTES) or b"")
        yield "dense rows", lambda: pack(many_rows(plain, MOST_BYTES, (",", ":")) or b"")
    yield "half", lambda: seed[: len(seed) // 2] + b"!"


def _filled(plain: bytes, part: bytes, pack: Callable[[bytes], bytes]) -> bytes:
    """Return a file with a filler in its middle; in a JSON text, as a list at its end."""
    begin, end = plain[: len(plain) // 2], plain[len(plain) // 2 :]
    if plain[:1] in (b"{", b"["):
        begin, end = plain.rstrip()[:-1] + (b',"more":[' if plain[:1] == b"{" else b",["), b""
    filler = part * ((MOST_BYTES - len(plain)) // len(part))
    return pack(begin + filler + b"!" + end)


def many_rows(plain: bytes, most: int, separators: tuple[str, str] = (", ", ": ")) -> bytes | None:
    """Return a JSON text with its longest list many times over, the last item being wrong."""
    try:
        data = json.loads(plain)
    except ValueError:
        return None
    lists: list[list[Any]] = []
    rest = [data]
    while rest:
        value = rest.pop()
        lists += [value] if isinstance(value, list) else []
        rest += value.values() if isinstance(value, dict) else value if type(value) is list else []
    if not lists or not (longest := max(lists, key=lambda one: len(json.dumps(one)))):
        return None
    write = partial(json.dumps, separators=separators)
    each = len(write(longest)) - 2 + len(separators[0])
    longest[:] = longest * max(1, (most - len(plain)) // each) + ["wrong"]
    return write(data).encode()


def _whole(content: Callable[[], bytes]) -> Callable[[Path], object]:
    return lambda path: path.write_bytes(content())


def _endless(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _loop(path: Path) -> None:
    path.symlink_to(path.name)


def _hole(path: Path) -> None:
    with path.open("wb") as stream:
        stream.truncate(2**40)


NO_FILES: dict[str, Callable[[Path], object]] = {
    "empty": Path.touch, "folder": Path.mkdir, "pipe": os.mkfifo, "link to itself": _loop,
    "endless": _endless, "hole of a TiB": _hole,
}  # fmt: skip


def _columns(store: bytes) -> list[tuple[str, str]]:
    """Return the tables and columns of a store that have contents."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "s.db").write_bytes(store)
        with sqlite3.connect(Path(folder, "s.db")) as database:
            return [
                (table, column)
                for table in ("instance", "member", "solve")
                for _, column, *_ in database.execute(f"PRAGMA table_info({table})")
            ]


def _edited(table: str, column: str, cell: object) -> Callable[[Path], object]:
    def write(path: Path) -> None:
        path.write_bytes(READERS["store"].seed())
        with sqlite3.connect(path) as database:
            database.execute(f"UPDATE OR IGNORE {table} SET {column} = ?", (cell,))
        database.close()

    return write


def ended(case: Case, folder: Path) -> Ended:
    """Write the file, run the command on it in a process of its own, remove the file."""
    place = folder / "file"
    place.mkdir()
    path = place / case.file
    _in_child(lambda: case.write(path))  # as what is dear to write would count as this process's
    kind, _, format = case.reader.partition("-")
    words = {"FILE": path, "INSTANCE": folder / "instance.json", "OUT": place / "out"}
    words |= {"OUT.npz": place / "out.npz", "FORMAT": Path(format)}
    argv = [str(words.get(word, word)) for word in COMMANDS[kind]]
    program = PROGRAMS.get(kind, "moeopt")
    status, used = _in_child(lambda: _run(program, argv, folder / "said"))
    if used.ru_maxrss > MOST_MIB * 1024:  # what is forked counts this process's memory as its own
        status, used = _in_child(lambda: _begun(program, argv, folder / "said"))
    said = (folder / "said").read_text(errors="replace").splitlines()
    shutil.rmtree(place)
    code = os.waitstatus_to_exitcode(status)
    seconds, mib = used.ru_utime + used.ru_stime, used.ru_maxrss // 1024
    return Ended(code, tuple(said), seconds, mib, case.may_be_read and code == 0)


def _in_child(call: Callable[[], object]) -> tuple[int, resource.struct_rusage]:
    """Call a function in a process of its own; return how that ended and what it took."""
    child = os.fork()
    if not child:
        try:
            call()
        finally:
            os._exit(0)
    _, status, used = os.wait4(child, 0)
    return status, used


def _run(program: str, argv: list[str], said: Path) -> None:
    """Run a command line of a module, its stderr in a file; never return."""
    from benchmarks.traces.__main__ import run as run_on_published
    from instances.tools.commands import run as run_tool
    from tests.rooms.cli import main, run

    called = {"benchmarks.traces": run_on_published, "instances.tools": run_tool}.get(program, run)
    code = 99
    try:
        with said.open("w") as errors, Path(os.devnull).open("w") as nothing:
            os.dup2(errors.fileno(), 2)
            os.dup2(nothing.fileno(), 1)
            sys.stdout, sys.stderr = nothing, errors
            signal.alarm(6 * MOST_S)  # what waits takes no CPU time
            resource.setrlimit(resource.RLIMIT_CPU, (6 * MOST_S, 6 * MOST_S))
            resource.setrlimit(resource.RLIMIT_DATA, (2**33, 2**33))
            try:
                main(argv, called)
            except SystemExit as error:
                code = error.code if isinstance(error.code, int) else 0
            except BaseException:
                import traceback

                traceback.print_exc(file=errors)
            errors.flush()
    finally:
        os._exit(code)


def _begun(program: str, argv: list[str], said: Path) -> None:
    """Become the command line, in an interpreter that has nothing else; never return."""
    for number, file in ((1, Path(os.devnull)), (2, said)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_TRUNC | os.O_CREAT), number)
    resource.setrlimit(resource.RLIMIT_CPU, (6 * MOST_S, 6 * MOST_S))
    resource.setrlimit(resource.RLIMIT_DATA, (2**33, 2**33))
    os.execv(sys.executable, [sys.executable, "-m", program, *argv])


def hostile(reader: str) -> Iterator[tuple[str, Ended]]:
    """Run the cases of a reader and yield how each ended."""
    import moeopt
    from tests.rooms.tri_domain import Instance

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lists: dict[str, Any] = {"gpu_ns": [30, 40], "cpu_ns": [50, 20], "ndp_ns": [-1, 30]}
        instance = Instance.from_arrays(**lists, dimm=[-1, 0], dimms=1)
        moeopt.save(instance, folder / "instance.json")
        for case in cases(reader):
            yield case.kind, ended(case, folder)


def _apart(reader: str) -> list[tuple[str, Ended]]:
    """Return how the cases of a reader ended, run in a process that has nothing of other readers.

    What is forked counts the memory of the process that it is forked from as its own.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        return pool.submit(_listed, reader).result()


def _listed(reader: str) -> list[tuple[str, Ended]]:
    return list(hostile(reader))


def main() -> int:
    """Print a line for each reader and one for each file that was not refused as it must be."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("readers", nargs="*", choices=[[], *ON_COMMAND_LINE], default=[])
    print("| reader | files | refused as they must be | most MiB | most CPU s |")
    print("|---|---:|---:|---:|---:|")
    files = faults = 0
    names = parser.parse_args().readers or ON_COMMAND_LINE
    for name in names:
        found = list(hostile(name)) if len(names) == 1 else _apart(name)
        wrong = [f"{name}: {kind}: {end.fault}" for kind, end in found if end.fault]
        mib, seconds = max(end.mib for _, end in found), max(end.seconds for _, end in found)
        right = len(found) - len(wrong)
        for line in wrong:
            print(line, file=sys.stderr, flush=True)
        print(f"| {name} | {len(found)} | {right} | {mib} | {seconds:.1f} |", flush=True)
        files += len(found)
        faults += len(wrong)
    print(f"{files} files, {faults} not refused as they must be")
    return int(faults > 0)


if __name__ == "__main__":
    sys.exit(main())
