"""The worst GGUF files on the command line: exit code 2, one line, little memory and time."""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError
from tests.gguf_files import BLOCKS, header, text, write_gguf
from tests.rooms.cli import run
from tests.rooms.sim import get_model, quantised, weight_bytes
from tests.sim.gguf_models import GLM, GLM_TENSORS, GPT_OSS, GPT_OSS_TENSORS, SMALL, SMALL_TENSORS

MOST_MIB, MOST_S = 200, 2.0

RUN = (
    f"from {run.__module__} import run\n"
    + """
import json, sys, time

for path in sys.argv[1:]:
    begin = time.process_time()
    code = run(["simulate", "--machine", "rtx4090-7960x", "--workload", "hdmoe-mixtral",
                "--json", "--model", path])
    print(json.dumps([code, time.process_time() - begin]))
with open("/proc/self/status") as status:  # getrusage would have the parent's peak, too
    print(next(line.split()[1] for line in status if line.startswith("VmHWM")))
"""
)
"""Runs the command on each file in one process; its code and CPU time, and the peak in KiB."""


def begin(tensors: int = 0, keys: int = 0) -> bytes:
    """Return the first 24 bytes of a file."""
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys)


def sparse(raw: bytes) -> Callable[[Path], None]:
    """Return what writes these bytes and a hole up to 2^40 bytes."""

    def write(path: Path) -> None:
        with path.open("wb") as stream:
            stream.write(raw)
            stream.truncate(2**40 + 2**10)

    return write


def whole(raw: bytes) -> Callable[[Path], None]:
    """Return what writes these bytes."""

    def write(path: Path) -> None:
        path.write_bytes(raw)

    return write


def tensor(name: str, offset: int) -> bytes:
    """Return a row of the table of tensors: one number."""
    return text(name) + struct.pack("<IQIQ", 1, 1, 0, offset)


def cyclic(path: Path) -> None:
    """Link two shards to each other."""
    other = path.with_name(path.name.replace("00001-of", "00002-of"))
    path.symlink_to(other.name)
    other.symlink_to(path.name)


def the_same(path: Path) -> None:
    """Link 1024 shards to one file of many tensors."""
    rows = b"".join(tensor(f"blk.{index}.x.weight", 32 * index) for index in range(20_000))
    path.with_name("one").write_bytes(begin(20_000) + rows + bytes(32 * 20_001))
    for number in range(1, 1025):
        path.with_name(f"s-{number:05}-of-01024.gguf").symlink_to("one")


def lists(path: Path) -> None:
    """Write 8000 lists of 4096 bytes each, a hole: as tuples of integers they are 256 MiB."""
    with path.open("wb") as stream:
        stream.write(begin(keys=8000))
        for index in range(8000):
            stream.write(text(f"k{index}") + struct.pack("<IIQ", 9, 0, 4096))
            stream.seek(4096, 1)
        stream.truncate()


ROWS = b"".join(tensor(f"blk.{index}.x.weight", 32 * index) for index in range(2**16))

WORST: dict[str, Callable[[Path], None]] = {
    "tensors-2^60.gguf": whole(begin(2**60) + bytes(99)),
    "nested.gguf": whole(
        begin(keys=1) + text("k") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 10**5
    ),
    "name-2^40.gguf": sparse(begin(keys=1) + struct.pack("<Q", 2**40)),
    "text-2^40.gguf": sparse(begin(keys=1) + text("k") + struct.pack("<IQ", 8, 2**40)),
    "strings-2^36.gguf": sparse(begin(keys=1) + text("k") + struct.pack("<IIQ", 9, 8, 2**36)),
    "strings-2^20.gguf": sparse(begin(keys=1) + text("k") + struct.pack("<IIQ", 9, 8, 2**20 - 9)),
    "doubles-2^36.gguf": sparse(begin(keys=1) + text("k") + struct.pack("<IIQ", 9, 12, 2**36)),
    "lists.gguf": lists,
    "tensors-2^16.gguf": whole(begin(2**16) + ROWS + bytes(32 * 2**16 + 32)),
    "half.gguf": whole(header(SMALL, SMALL_TENSORS)[:-200]),
    "c-00001-of-00002.gguf": cyclic,
    "s-00001-of-01024.gguf": the_same,
}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak is read from /proc")
def test_the_worst_files_cost_little(tmp_path: Path) -> None:
    """Each exit code 2, one line and at most 2 s; all together at most 200 MiB."""
    for name, write in WORST.items():
        write(tmp_path / name)
    done = subprocess.run(
        [sys.executable, "-c", RUN, *(str(tmp_path / name) for name in WORST)],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    *lines, peak = done.stdout.splitlines()
    told = done.stderr.splitlines()
    assert len(lines) == len(told) == len(WORST)
    for name, line, message in zip(WORST, lines, told, strict=True):
        code, seconds = json.loads(line)
        assert (name, code) == (name, 2)
        assert seconds < MOST_S, name
        assert message.startswith("moeopt: error: ")
        assert name in message
    assert int(peak) < MOST_MIB * 2**10


ODD: tuple[Any, ...] = (
    *(0, 1, 3, 127, 4097, 2**24, 2**31 - 1, "x", "", 1.5, True, [0, 1], [4] * 5, ["a"]),
    *(struct.pack("<If", 6, float("nan")), struct.pack("<IQ", 10, 2**64 - 1)),
    *(struct.pack("<Iq", 11, -(2**63)), struct.pack("<IIQ", 9, 7, 2) + b"\1\2"),
)
"""Values that a key may not have."""

ELSEWHERE = ("blk.4095.ffn_up_exps.weight", "blk.99999.x.weight", "blk.1.ffn_gate.3.weight")


def changed(generator: random.Random) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a model of which one or two keys or tensors are missing, of other sizes or odd."""
    models = ((SMALL, SMALL_TENSORS), (GLM, GLM_TENSORS), (GPT_OSS, GPT_OSS_TENSORS))
    chosen = generator.choice(models)
    keys, tensors = dict(chosen[0]), dict(chosen[1])
    for _ in range(generator.randint(1, 2)):
        if generator.random() < 0.6:
            keys[generator.choice(list(keys))] = generator.choice(ODD)
            continue
        name = generator.choice(list(tensors))
        shape, kind = tensors[name]
        way = generator.randrange(4)
        if way == 0:
            del tensors[name]
        elif way == 1:
            tensors[name] = (shape, generator.choice(list(BLOCKS)))
        elif way == 2:
            tensors[generator.choice(ELSEWHERE)] = tensors[name]
        else:
            axis = generator.randrange(len(shape))
            size = generator.choice((1, 4, 256, 512, 2**16))
            tensors[name] = ((*shape[:axis], size, *shape[axis + 1 :])[: len(shape)], kind)
    return keys, tensors


@pytest.mark.parametrize(
    "count", [60, pytest.param(3000, marks=pytest.mark.slow)], ids=["quick", "slow"]
)
def test_changed_models_are_read_or_refused_in_one_line(count: int, tmp_path: Path) -> None:
    """Well-formed files with odd values; a model that is read has bytes, and can be quantised."""
    generator = random.Random(5)
    path = tmp_path / "m.gguf"
    refused: list[str] = []
    for _ in range(count):
        write_gguf(path, *changed(generator))
        try:
            model = get_model(path)
            assert 0 < weight_bytes(quantised(model, "Q4_K_M")) < 2**50
        except InputError as error:
            refused.append(str(error))
    assert all(message.isprintable() and len(message) < 400 for message in refused)
    assert 0.3 * count < len(refused) < 0.9 * count
