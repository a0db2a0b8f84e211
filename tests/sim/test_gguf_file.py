"""Headers of GGUF files: what is read, and that no file can do harm."""

import random
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError
from tests.gguf_files import F16, F32, Q4_K, header, text, value, write_gguf
from tests.rooms.sim import MAX_ITEMS, TYPES, get_model, is_gguf, read_gguf
from tests.sim.gguf_models import SMALL, SMALL_TENSORS

MEBIBYTE = 2**20


def _both(path: Path) -> None:
    """Read the whole file, then the model of its header: either refuses."""
    read_gguf(path)
    get_model(path)


def refused(path: Path, most: int | None = 16 * MEBIBYTE) -> str:
    """Return what the InputError says, if CPU time and memory stay below 2 s and `most` bytes.

    Memory is traced unless `most` is None; tracing takes 20 times the time of what is traced.
    """
    begin = time.process_time()
    if most is not None:
        tracemalloc.start()
    try:
        with pytest.raises(InputError) as caught:
            _both(path)
        assert tracemalloc.get_traced_memory()[1] < (most or 1)
    finally:
        tracemalloc.stop()
    assert time.process_time() - begin < 2
    message = str(caught.value)
    assert message.isprintable()
    assert len(message) < 500
    assert str(path.parent) in message
    return message


def written(path: Path, raw: bytes) -> Path:
    path.write_bytes(raw)
    return path


def start(tensors: int = 0, keys: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def test_the_header_is_read_and_nothing_else(tmp_path: Path) -> None:
    """Scalars, short lists and texts are kept, vocabularies skipped, tensors placed."""
    metadata = {
        "general.architecture": "x",
        "x.rate": 0.5,
        "x.flag": True,
        "x.per_layer": [1, -2],
        "x.big": struct.pack("<Iq", 11, -(2**40)),
        "tokenizer.tokens": ["a", "", "ü"],
        "x.after": 7,
    }
    tensors = {"a": ((32, 2), F32), "b": ((256, 3), Q4_K), "c": ((5,), F16)}
    path = write_gguf(tmp_path / "x.gguf", metadata, tensors)
    found = read_gguf(path)
    kept = {key: item for key, item in metadata.items() if not key.startswith("tokenizer")}
    assert found.metadata == kept | {"x.per_layer": (1, -2), "x.big": -(2**40)}
    begin = len(header(metadata, tensors))
    assert [(t.name, t.shape, t.begin - begin, t.size) for t in found.tensors] == [
        ("a", (32, 2), 0, 256),
        ("b", (256, 3), 256, 432),
        ("c", (5,), 704, 10),
    ]
    assert is_gguf(path)


def test_types_have_the_widths_that_their_names_promise() -> None:
    """Bits per weight of a long row, by llama.cpp's and ik_llama.cpp's own tables."""
    bits = {"F16": 16, "Q8_0": 8.5, "Q6_K": 6.5625, "Q4_K": 4.5, "Q4_0": 4.5, "Q2_K": 2.625}
    bits |= {"IQ4_XS": 4.25, "IQ1_S": 1.5625, "MXFP4": 4.25, "NVFP4": 4.5, "TQ1_0": 1.6875}
    bits |= {"IQ4_K": 4.5, "IQ2_K": 2.375, "IQ6_K": 6.625, "Q6_0": 6.5, "Q3_K": 3.4375}
    named = {kind.name: kind for kind in TYPES.values()}
    assert len(named) == len(TYPES)
    for name, width in bits.items():
        assert named[name].row_size(4096) == 4096 * width / 8
    assert named["Q2_0"].row_size(4096) == 4096 * 2.25 / 8
    assert named["IQ1_S_R4"].row_size(4096) == 4096 * 1.5 / 8 + 2
    for plain, repacked in (("IQ4_K", "IQ4_K_R4"), ("Q8_0", "Q8_0_R8"), ("IQ4_KS", "IQ4_KS_R4")):
        assert named[plain].row_size(4096) == named[repacked].row_size(4096)
    assert TYPES[339].name == "IQ4_K_R4"
    assert named["IQ4_KS"].row_size(4096) == 4096 * 4.25 / 8 + 4
    assert named["Q4_K"].row_size(255) is None


HUGE = struct.pack("<Q", 2**40)


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not a GGUF file"),
        (b"GGUF", "not a GGUF file"),
        (b"GGML" + bytes(40), "not a GGUF file"),
        (start(version=1), "header: GGUF version 1; known are 2 and 3"),
        (start(version=3 << 24), "header: GGUF version 50331648; big-endian files are not read"),
        (start(tensors=2**60), "header: 1152921504606846976 tensors and 0 keys cannot be in 0 byt"),
        (start(keys=2**60), "header: 0 tensors and 1152921504606846976 keys cannot be in 0 bytes"),
        (start(tensors=2**17) + bytes(2**22 + 2**10), "header: 131072 tensors and 0 keys cannot"),
        (start(keys=1) + HUGE + bytes(99), "key 0: needs 1099511627776 bytes, the file ends after"),
        (start(keys=1) + text("k" * 2000) + bytes(9), "key 0: a name of 2000 bytes, above 1024"),
        (start(keys=1) + text(b"\xff") + bytes(9), "key 0: not UTF-8 text"),
        (start(keys=2) + 2 * (text("k") + value(1)), '"k": is there twice'),
        (start(keys=1) + text("k") + struct.pack("<I", 99), '"k": value type 99 is not known'),
        (start(keys=1) + text("k") + struct.pack("<I", 8) + HUGE, '"k": needs 1099511627776 bytes'),
        (start(keys=1) + text("k") + struct.pack("<IIQ", 9, 8, 2**60), '"k": 115292150460684697'),
        (start(keys=1) + text("k") + struct.pack("<IIQ", 9, 10, 2**60), '"k": needs 92233720368'),
        (start(keys=1) + text("k") + struct.pack("<IIQ", 9, 9, 1), '"k": a list of lists is not'),
        (start(keys=1) + text("k") + struct.pack("<IIQ", 9, 13, 1), '"k": a list of value type 13'),
        (start(keys=1) + text("k") + value(["a"])[:-1], '"k": needs 9 bytes, the file ends'),
        (start(1) + text("t") + struct.pack("<I", 5) + bytes(99), '"t": must have 1 to 4 axes, n'),
        (start(1) + text("t") + struct.pack("<IQIQ", 1, 0, 0, 0), '"t": has an axis of length 0'),
        (
            start(1) + text("t") + struct.pack("<IQIQ", 1, 1, 5, 0),
            '"t": tensor type 5 is not known',
        ),
        (start(1) + text("t") + struct.pack("<IQIQ", 1, 9, 12, 0), '"t": rows of 9 are no whole b'),
        (start(1) + text("t") + struct.pack("<IQIQ", 1, 9, 0, 1), '"t": offset 1 is not aligned'),
        (
            start(1) + text("t") + struct.pack("<IQIQ", 1, 2**60, 0, 0),
            '"t": has 4611686018427387904',
        ),
        (
            start(2) + 2 * (text("t") + struct.pack("<IQIQ", 1, 1, 0, 0)) + bytes(99),
            '"t": is there twice',
        ),
        (
            header({}, {"a": ((8,), F32)})[:24].replace(b"\1", b"\2", 1)
            + b"".join(text(n) + struct.pack("<IQIQ", 1, 99, 0, 0) for n in "ab")
            + bytes(999),
            '"b": offset 0 is not aligned, or within the tensor before',
        ),
        (header({"general.alignment": 24}, {}), "general.alignment: must be a power of 2 up to"),
        (header({"general.alignment": "32"}, {}), "general.alignment: must be a power of 2 up"),
        (header({"general.type": "adapter"}, {}), 'general.type: must be a model, not "adapter"'),
        (header({}, {}), "general.architecture: must be a name, not null"),
        (header({"general.architecture": [1]}, {}), "general.architecture: must be a name, not"),
        (header({"general.architecture": "a\nb"}, {}), "general.architecture: must be a name, not"),
    ],
)
def test_a_hostile_header_is_one_line(raw: bytes, says: str, tmp_path: Path) -> None:
    """Lengths of 2^40 and 2^60, wrong types, nesting, overlaps: refused before anything is read."""
    path = written(tmp_path / "x.gguf", raw)
    assert refused(path).removeprefix(f"{path}: ").startswith(says)


def test_a_vocabulary_of_millions_is_refused_in_time(tmp_path: Path) -> None:
    """One string more than the limit; just as many are read."""
    for count, says in (
        (MAX_ITEMS, "keys, strings and tensors in all"),
        (MAX_ITEMS - 9, "general."),
    ):
        listed = struct.pack("<IIQ", 9, 8, count) + bytes(8 * count)
        path = written(tmp_path / "x.gguf", start(keys=1) + text("k") + listed + bytes(32))
        assert says in refused(path, most=None)


def test_long_strings_are_not_read_through(tmp_path: Path) -> None:
    """Ten thousand strings of 1 MiB, in a file that is a hole: given up after 128 MiB."""
    path = tmp_path / "x.gguf"
    with path.open("wb") as stream:
        stream.write(start(keys=1) + text("k") + struct.pack("<IIQ", 9, 8, 10_000))
        for _ in range(150):
            stream.write(struct.pack("<Q", MEBIBYTE))
            stream.seek(MEBIBYTE, 1)
        stream.truncate(10_001 * MEBIBYTE)
    assert refused(path).endswith('"k": more than 128 MiB before the tensors')


def test_metadata_are_kept_up_to_a_limit(tmp_path: Path) -> None:
    """Two thousand texts of 4 KiB are too many; a single long one is left out."""
    raw = b"".join(text(f"k{index}") + value("x" * 4096) for index in range(2000))
    path = written(tmp_path / "x.gguf", start(keys=2000) + raw)
    assert "more than 4 MiB of metadata" in refused(path)
    path = write_gguf(tmp_path / "y.gguf", {"a": "x" * 5000, "b": 1}, {})
    assert read_gguf(path).metadata == {"b": 1}
    path = write_gguf(tmp_path / "y.gguf", {"a": [1] * 5000, "b": 1}, {})
    assert read_gguf(path).metadata == {"b": 1}


def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path: Path) -> None:
    """Every length but the full one: within the header, or within a tensor.

    A model's shape needs the header alone.
    """
    whole = write_gguf(tmp_path / "x.gguf", SMALL, SMALL_TENSORS)
    raw = whole.read_bytes()
    assert get_model(whole).routed_experts == 4
    head = len(header(SMALL, SMALL_TENSORS))
    generator = random.Random(1)
    for end in [*generator.sample(range(head), 60), head, len(raw) - 64]:
        refused(written(tmp_path / "cut.gguf", raw[:end]))
    alone = get_model(written(tmp_path / "x.gguf", raw[:head]))
    assert alone == get_model(written(tmp_path / "x.gguf", raw))
    for end in generator.sample(range(head - 64), 9):
        with pytest.raises(InputError):
            get_model(written(tmp_path / "cut.gguf", raw[:end]))


# Shards


def shard(folder: Path, number: int, count: int, **changes: Any) -> Path:
    """Write shard `number` of `count`, from 1: the first has the metadata, all some tensors."""
    names = list(SMALL_TENSORS)[number - 1 :: count]
    metadata = (SMALL if number == 1 else {}) | {"split.no": number - 1, "split.count": count}
    metadata |= {"split.tensors.count": len(SMALL_TENSORS)} | changes
    path = folder / f"m-{number:05}-of-{count:05}.gguf"
    return write_gguf(path, metadata, {name: SMALL_TENSORS[name] for name in names})


def test_all_shards_are_read_whichever_is_named(tmp_path: Path) -> None:
    """The same shape as from one file, called without the number."""
    one = get_model(write_gguf(tmp_path / "m.gguf", SMALL, SMALL_TENSORS))
    paths = [shard(tmp_path, number, 3) for number in (1, 2, 3)]
    assert [get_model(path) for path in paths] == [one] * 3
    assert one.name == "m"


def test_shards_that_are_missing_or_not_theirs_are_refused(tmp_path: Path) -> None:
    """Missing, linked to themselves or each other, of another split, or with others' tensors."""
    first, second, third = (shard(tmp_path, number, 3) for number in (1, 2, 3))
    second.unlink()
    assert refused(first).endswith("m-00002-of-00003.gguf: is missing, shard 2 of 3")
    second.symlink_to(second.name)
    assert "m-00002-of-00003.gguf: " in refused(first)
    second.unlink()
    second.symlink_to(third.name)
    says = "split.no, split.count: must be 1 and 3 by the file's name, not 2 and 3"
    assert refused(first).endswith(says)
    second.unlink()
    write_gguf(second, {"split.no": 1, "split.count": 3}, SMALL_TENSORS)
    assert refused(first).endswith("too")
    write_gguf(second, {"split.no": 1, "split.count": 3}, {})
    assert "split.tensors.count: is " in refused(first)
    write_gguf(second, {}, {})
    assert "must be 1 and 3 by the file's name, not null and null" in refused(first)
    for name in ("m-00004-of-00003.gguf", "m-00000-of-00003.gguf", "m-00001-of-99999.gguf"):
        path = tmp_path / name
        path.write_bytes(first.read_bytes())
        assert refused(path).endswith("must be shard 1 to N of N, at most 1024, by its name")
    alone = tmp_path / "renamed.gguf"
    alone.write_bytes(first.read_bytes())
    assert "is one of 3 shards, not called like one" in refused(alone)


def test_what_only_begins_like_gguf_is_no_json(tmp_path: Path) -> None:
    """By its first bytes or its name, whichever is there."""
    assert "not a GGUF file" in refused(written(tmp_path / "a.gguf", b"{}"))
    assert "not a GGUF file" in refused(written(tmp_path / "a.json", b"GGUF"))
