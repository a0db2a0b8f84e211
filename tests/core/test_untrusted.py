"""Small files that would cost gigabytes are refused in one line, before they do."""

import gzip
import io
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.problems.tri_domain.random_instances import random_instance
from tests.refusals import refused
from tests.rooms.core import FREE_BYTES, MIB, expanded, expanded_limit, inside, meant, read_bytes
from tests.rooms.sim import load_loss_table
from tests.rooms.study import Store, make_plan, read_campaign, unpacked_instance, unpacked_solution

ZEROS = bytes(32 * MIB)
"""More than a file of some kilobytes may expand to."""


def test_the_limit_grows_with_the_file() -> None:
    """A hundred times what it weighs, at least 16 MiB, never more than its kind may have."""
    assert expanded_limit(10, 2**40) == FREE_BYTES
    assert expanded_limit(MIB, 2**40) == 100 * MIB
    assert expanded_limit(MIB, 5 * MIB) == 5 * MIB


def test_instances_that_expand_are_refused(tmp_path: Path) -> None:
    """By bytes, and by lists where the bytes are few."""
    packed = tmp_path / "a.json.gz"
    packed.write_bytes(gzip.compress(b"[" + ZEROS + b"]"))
    with pytest.raises(InputError, match="larger than 16 MiB"):
        moeopt.load(packed)
    lists = tmp_path / "b.json"
    lists.write_text('{"a": [' + "[]," * (2 * MIB) + "[]]}")
    with pytest.raises(InputError, match="lists and objects"):
        moeopt.load(lists)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("a" + ".a" * 20_000 + " = 1\n", "parts"),
        ('campaign = "a\\u0000b"\n', "c.toml: "),
        ("[" * 9000, "not valid TOML"),
        ('campaign = "a"\ninstances = ["a\\u0000b"]\n', r"instances\[0\]"),
        (f'campaign = "a"\ninstances = ["{"a" * 5000}"]\n', "at most 4096 characters"),
        (f'campaign = "a"\nseeds = {[0] * 5000}\n' + "[[part]]\n" * 500, "500 parts that share"),
    ],
)
def test_campaigns_are_bounded(text: str, reason: str, tmp_path: Path) -> None:
    """A dotted key of many parts costs the square of its length."""
    file = tmp_path / "c.toml"
    file.write_text(text)
    with pytest.raises(InputError, match=reason):
        read_campaign(file)


def test_campaigns_of_too_many_solves_are_refused(tmp_path: Path) -> None:
    """The lists of a file of a kilobyte, multiplied."""
    moeopt.save(random_instance(0), tmp_path / "i.json")
    many = [float(n + 1) for n in range(2000)]
    text = f'campaign = "a"\ninstances = ["i.json"]\nmethods = ["greedy"]\nwork_limits = {many}\n'
    (tmp_path / "c.toml").write_text(f"{text}seeds = {[*range(600)]}\n")
    with pytest.raises(InputError, match="more than 1,000,000 solves"):
        make_plan(read_campaign(tmp_path / "c.toml"))


@pytest.mark.parametrize(
    ("name", "is_inside"),
    [
        *(("a/b.npz", True), ("a", True), ("../a", False), ("a/../../b", False), ("/a", False)),
        *(("", False), ("a\0b", False), ("\ud800", False), ("a" * 256, False), ("a/" * 200, False)),
    ],
)
def test_what_a_file_names_lies_in_its_folder(name: str, is_inside: bool) -> None:
    """No way up, none from the root, no name that a system has not."""
    assert inside(Path("x"), name) == (Path("x", name) if is_inside else None)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("model,tokens_per_s\nmixtral-8x7b,1e-320\n", "must be from 1e-06 to 1e"),
        ("model,tokens_per_s\n" + "," * 10**5 + "\n", "line 2: longer than"),
        ("model,tokens_per_s\n" + "mixtral-8x7b,5\n" * 2001, "has more than 2000 lines"),
        ('[{"avg_ts": 5, "n_gen": 1, "model_filename": "%s.gguf"}]' % ("a" * 10**4), "is no .gguf"),
    ],
    ids=["slow", "wide", "long", "name"],
)
def test_measured_speeds_are_bounded(table: str, reason: str, tmp_path: Path) -> None:
    """A step of infinite length, a line of many cells, more points than a fit takes in seconds."""
    (tmp_path / "p").write_text(table)
    said = refused(moeopt.read_measurements, tmp_path / "p")
    assert reason in said
    assert len(said) < 400


def test_what_an_archive_quotes_of_itself_is_cut(tmp_path: Path) -> None:
    """The name of a member may be as long as 64 KiB."""
    stream = io.BytesIO()
    np.savez(stream, topk_ids=np.zeros((900, 1, 1), dtype=np.int64))
    content = bytearray(stream.getvalue())
    content[26:28] = (5000).to_bytes(2, "little")
    (tmp_path / "t.npz").write_bytes(content)
    assert len(refused(moeopt.load_trace, tmp_path / "t.npz")) < 400 + len(str(tmp_path))


def test_a_line_of_losses_is_no_megabyte(tmp_path: Path) -> None:
    """Its cells would take thirty times its room."""
    (tmp_path / "l.csv").write_text("layer,expert,bits,loss\n" + "[]," * 10**6)
    assert "line 2: longer than" in refused(load_loss_table, tmp_path / "l.csv")


def test_longer_floats_are_no_warning(tmp_path: Path) -> None:
    """What no double holds is infinite."""
    huge = np.array([[[np.longdouble("1e4000")]]])
    np.savez(tmp_path / "l.npz", bits=np.array([1]), loss=huge)
    assert "must be finite" in refused(load_loss_table, tmp_path / "l.npz")


BLOBS = [None, "text", b"x", *map(gzip.compress, (ZEROS, b"{", b"[" * 9**5, b"\xff"))]


@pytest.mark.parametrize("blob", BLOBS, ids=range(len(BLOBS)))
def test_rows_of_a_store_are_data_from_strangers(blob: Any) -> None:
    """Whatever a cell holds: one line."""
    with pytest.raises(InputError, match="instance"):
        unpacked_instance("cache", blob)


@pytest.mark.parametrize("text", ["", "{", "[" * 9**5, "[[]]" * 9**6, '{"a": 1}', "7"])
def test_solutions_of_a_store_are_data_from_strangers(text: str) -> None:
    """Whatever a cell holds: one line."""
    with pytest.raises(InputError, match=r".+: .+"):
        unpacked_solution("cache", text)


def test_what_a_missing_key_is_taken_for_is_cut() -> None:
    """A file's own key, which may be as long as the file."""
    said = meant("gpu_ns", ["gpu_ns" + "[" * 5000])
    assert said.startswith("; did you mean gpu_ns[")
    assert len(said) < 90


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE VIEW a AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x+1 FROM n)"
        " SELECT x FROM n",
        "CREATE TABLE a (x, y AS (hex(zeroblob(500000000))))",
        "CREATE TRIGGER a AFTER INSERT ON solve BEGIN DELETE FROM solve; END",
        "CREATE VIRTUAL TABLE a USING fts5(x)",
    ],
)
def test_a_store_that_computes_is_refused(statement: str, tmp_path: Path) -> None:
    """A recursive view in place of a table was read for ever."""
    file = tmp_path / "s.db"
    Store(file).close()
    with closing(sqlite3.connect(file)) as database:
        database.execute(statement)
        database.commit()
    for store in (partial(Store, file), partial(Store, file, read_only=True)):
        with pytest.raises(moeopt.StoreError, match="that computes, and is refused"):
            store()


def test_an_empty_file_is_no_store(tmp_path: Path) -> None:
    """And stays empty."""
    file = tmp_path / "empty.db"
    file.touch()
    with pytest.raises(moeopt.StoreError, match="is empty, and no store"):
        Store(file, create=False)
    assert file.stat().st_size == 0


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no FIFOs here")
@pytest.mark.parametrize(
    ("name", "read"),
    [
        ("f.json", moeopt.load), ("f.npz", moeopt.load_trace),
        ("f.pt", moeopt.load_trace), ("f.csv", moeopt.load_counts), ("f.toml", read_campaign),
        ("f.json", moeopt.read_measurements),
    ],
)  # fmt: skip
def test_a_fifo_is_refused(name: str, read: Callable[[Path], Any], tmp_path: Path) -> None:
    """It would be waited for without end."""
    os.mkfifo(tmp_path / name)
    with pytest.raises(InputError, match="is no regular file"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("text", "read", "reason"),
    [
        ("".join(f"{n},65535,1\n" for n in range(100)), moeopt.load_counts, "experts are too many"),
        ("0,0,0\n0,1,0\n", moeopt.load_counts, "is zero for every expert"),
    ],
    ids=["wide", "zero"],
)
def test_tables_that_are_mostly_empty(
    text: str, read: Callable[[Path], Any], reason: str, tmp_path: Path
) -> None:
    """A few lines make no table of gigabytes."""
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(InputError, match=reason):
        read(tmp_path / "t.csv")


def test_blobs_and_files_within_bounds_are_read(tmp_path: Path) -> None:
    """What is no bomb is read whole."""
    assert expanded(gzip.compress(b"abc"), 10, "x") == b"abc"
    (tmp_path / "a.gz").write_bytes(gzip.compress(b"abc" * 1000))
    assert read_bytes(tmp_path / "a.gz", MIB) == b"abc" * 1000
