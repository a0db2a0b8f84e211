"""The npz trace importer: good files, files made to do harm, and the real traces where present."""

import io
import json
import pickle
import struct
import tracemalloc
import warnings
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import moeopt
from tests.interop.refusals import MEBIBYTE, Bomb, frugal_refusal, refusal
from tests.real_traces import real_trace_file
from tests.rooms.sim import checked as limits
from tests.rooms.sim import topk_npz as npy_files

IDS = np.arange(5 * 3 * 2, dtype=np.uint8).reshape(5, 3, 2) % 7
WEIGHTS = (np.arange(5 * 3 * 2).reshape(5, 3, 2) / 30).astype(np.float16)
LENGTHS = np.array([2, 0, 3], dtype=np.int32)


def saved(folder: Path, **arrays: Any) -> Path:
    """Write arrays as numpy does."""
    path = folder / "trace.npz"
    np.savez_compressed(path, **arrays)
    return path


def npy(array: NDArray[Any]) -> bytes:
    """Return an array as the bytes of a member."""
    stream = io.BytesIO()
    np.lib.format.write_array(stream, array)
    return stream.getvalue()


def headed(header: str, data: bytes = bytes(64)) -> bytes:
    """Return a member with a header of one's own."""
    text = header.encode("latin-1") + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + data


def described(descr: str, shape: str) -> bytes:
    """Return a member that declares a kind and a shape and holds 64 bytes."""
    return headed(f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}")


def zipped(
    folder: Path, *members: tuple[str, bytes], compression: int = zipfile.ZIP_DEFLATED
) -> Path:
    """Write a zip file of raw members."""
    path = folder / "trace.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def test_a_file_with_ids_alone_is_a_trace(tmp_path: Path) -> None:
    """Weights and lengths may be absent."""
    trace = moeopt.load_trace(saved(tmp_path, topk_ids=IDS))
    assert np.array_equal(trace.topk_ids, IDS)
    assert (trace.tokens, trace.layers) == (5, 3)
    assert trace.topk_weights is None
    assert trace.seq_len is None


def test_weights_and_lengths_are_read_where_they_are(tmp_path: Path) -> None:
    """All three arrays, whatever their number types; other members are left alone."""
    arrays = {"topk_ids": IDS.astype(">i8"), "topk_weights": WEIGHTS, "seq_len": LENGTHS}
    trace = moeopt.load_trace(str(saved(tmp_path, **arrays, comment=np.zeros(3))))
    assert np.array_equal(trace.topk_ids, IDS)
    assert np.array_equal(trace.topk_weights, WEIGHTS)
    assert np.array_equal(trace.seq_len, LENGTHS)


def test_a_trace_is_called_by_folder_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name goes into provenance, so it says nothing of the machine, however the path is."""
    path = saved(tmp_path, topk_ids=IDS)
    monkeypatch.chdir(tmp_path)
    for given_path in (path, "trace.npz", "./trace.npz"):
        trace = moeopt.load_trace(given_path)
        assert trace.name == f"{tmp_path.name}/trace.npz"
        assert trace.facts["tokens"] == 5
        assert len(trace.facts["sha256"]) == 64


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_compression_of_zip_is_read(compression: int, tmp_path: Path) -> None:
    """Not only what numpy itself writes."""
    path = zipped(tmp_path, ("topk_ids.npy", npy(IDS)), compression=compression)
    assert np.array_equal(moeopt.load_trace(path).topk_ids, IDS)


def changed(array: NDArray[Any], value: float) -> NDArray[Any]:
    """Return a copy whose last entry is another."""
    copy = array.copy()
    copy[-1, -1, -1] = value
    return copy


BAD_ARRAYS: dict[str, tuple[dict[str, Any], str]] = {
    "no topk_ids": (
        {"seq_len": LENGTHS},
        'holds "seq_len" (int32 of shape (3,)): which',
    ),
    "float ids": ({"topk_ids": IDS.astype(float)}, "topk_ids: must be integers [token, layer, k]"),
    "times for ids": ({"topk_ids": IDS.astype("m8[s]")}, "topk_ids: must be integers"),
    "2-D ids": ({"topk_ids": IDS[0]}, "topk_ids: must be integers [token, layer, k], not uint8 of"),
    "negative id": (
        {"topk_ids": changed(IDS.astype(np.int8), -3)},
        "topk_ids: must not be negative, except -1 for none, not -3",
    ),
    "an expert twice": (
        {"topk_ids": changed(IDS, IDS[-1, -1, 0])},
        f"topk_ids: token 4, layer 2: has expert {IDS[-1, -1, 0]} twice",
    ),
    "no tokens": ({"topk_ids": IDS[:0]}, "topk_ids: is empty, shape (0, 3, 2)"),
    "weights of another shape": (
        {"topk_ids": IDS, "topk_weights": WEIGHTS[:, :2]},
        "topk_weights: shape (5, 2, 2) is not that of topk_ids",
    ),
    "NaN weight": (
        {"topk_ids": IDS, "topk_weights": changed(WEIGHTS, np.nan)},
        "topk_weights: must be finite floats",
    ),
    "integer weights": ({"topk_ids": IDS, "topk_weights": IDS}, "topk_weights: must be finite"),
    "lengths too long": (
        {"topk_ids": IDS, "seq_len": np.array([2, 4])},
        "seq_len: sums to 6, not 5 tokens",
    ),
    "lengths that wrap around": (
        {"topk_ids": IDS, "seq_len": np.array([2**62] * 4 + [5])},
        "seq_len: must be from 0 to 5",
    ),
    "negative length": (
        {"topk_ids": IDS, "seq_len": np.array([7, -2])},
        "seq_len: must be from 0 to 5",
    ),
    "no lengths": (
        {"topk_ids": IDS, "seq_len": np.array([], dtype=int)},
        "seq_len: must be a list of integers",
    ),
    "float lengths": ({"topk_ids": IDS, "seq_len": np.array([5.0])}, "seq_len: must be a list of"),
}


@pytest.mark.parametrize(("arrays", "says"), BAD_ARRAYS.values(), ids=BAD_ARRAYS)
def test_an_array_that_is_no_trace_is_named_with_its_reason(
    arrays: dict[str, Any], says: str, tmp_path: Path
) -> None:
    """Honest files of the wrong arrays: file, field, reason."""
    assert refusal(saved(tmp_path, **arrays)).startswith(says)


@pytest.mark.parametrize("key", ["topk_ids", "topk_weights", "seq_len"])
def test_a_pickle_in_a_trace_is_never_opened(key: str, tmp_path: Path) -> None:
    """An object array is refused and the code in it does not run."""
    marker = tmp_path / "it has run"
    bomb = np.empty((1, 1, 1), dtype=object)
    bomb[0, 0, 0] = Bomb(marker)
    path = saved(tmp_path, **({"topk_ids": IDS} | {key: bomb}))
    assert "Object arrays cannot be loaded" in refusal(path)
    assert not marker.exists()
    pickle.loads(pickle.dumps(bomb[0, 0, 0]))
    assert marker.exists()  # or the bomb would have been a dud


def test_a_pickle_instead_of_a_zip_file_is_never_opened(tmp_path: Path) -> None:
    """Old numpy files may be bare pickles; not these."""
    marker = tmp_path / "it has run"
    path = tmp_path / "trace.npz"
    path.write_bytes(pickle.dumps(Bomb(marker)))
    assert refusal(path) == "not a usable npz file: File is not a zip file"
    assert not marker.exists()


TEN_TERABYTES = described("'<i8'", "(10000000000, 25, 5)")

HOSTILE_MEMBERS = {
    "10 TB declared": (TEN_TERABYTES, "topk_ids.npy: declares more than 16 MiB"),
    "400 digits of tokens": (described("'|u1'", f"({'9' * 400}, 1, 1)"), "topk_ids.npy: declares"),
    "nothing repeated": (
        described("'|V0'", "(10000000000000, 1, 1)"),
        "topk_ids: must be integers",
    ),
    "negative shape": (described("'|u1'", "(-1, 2, 2)"), "negative dimensions are not allowed"),
    "true as a size": (described("'|u1'", "(True, 2, 2)"), "not a usable npz file"),
    "truncated": (npy(IDS)[:-3], "not a usable npz file"),
    "ragged": (described("'<i8'", "(3, 3, 1)"), "not a usable npz file"),
    "nothing": (b"", "not a usable npz file"),
    "another version": (b"\x93NUMPY\x09\x00" + npy(IDS)[8:], "npy version (9, 0) is not known"),
    "nested header": (headed("(" * 9000), "not a usable npz file"),
    "header with code": (headed("__import__('os').abort()"), "not a usable npz file"),
    "object in a structure": (described("[('a', '|O')]", "(1, 1, 1)"), "Object arrays cannot be"),
    "unknown kind": (described("'<q99'", "(1, 1, 1)"), "not a usable npz file"),
}


@pytest.mark.parametrize(("member", "says"), HOSTILE_MEMBERS.values(), ids=HOSTILE_MEMBERS)
def test_a_hostile_member_is_refused_in_one_line_and_little_memory(
    member: bytes, says: str, tmp_path: Path
) -> None:
    """Headers that lie, that do not end, that are no headers."""
    path = zipped(tmp_path, ("topk_ids.npy", member))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numpy's own advice on old files
        assert says in frugal_refusal(path, 8 * MEBIBYTE)


def test_what_the_limit_counts_is_the_whole_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three arrays that fit one by one may be too much together."""
    arrays = {"topk_ids": IDS, "topk_weights": WEIGHTS, "seq_len": LENGTHS}
    path = saved(tmp_path, **arrays)
    members = sum(len(npy(array)) for array in arrays.values())
    monkeypatch.setattr(npy_files, "MAX_ARRAY_BYTES", members)
    assert moeopt.load_trace(path).tokens == 5
    monkeypatch.setattr(npy_files, "MAX_ARRAY_BYTES", members - 1)
    assert "declares more than" in refusal(path)


@pytest.mark.parametrize("padded", [False, True], ids=["in the array", "behind the array"])
def test_a_zip_bomb_is_not_expanded(
    padded: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A member that would grow a thousandfold is refused before it grows."""
    monkeypatch.setattr(npy_files, "MAX_ARRAY_BYTES", 16 * MEBIBYTE)
    zeros = npy(np.zeros((64 * MEBIBYTE, 1, 1), dtype=np.uint8))
    member = npy(IDS) + zeros if padded else zeros
    path = zipped(tmp_path, ("topk_ids.npy", member))
    assert path.stat().st_size < MEBIBYTE
    assert "topk_ids.npy: declares more than" in frugal_refusal(path, 4 * MEBIBYTE)


def test_a_bomb_beside_the_trace_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members that nobody asked for are not read, whatever they are."""
    monkeypatch.setattr(npy_files, "MAX_ARRAY_BYTES", 16 * MEBIBYTE)
    other = npy(np.zeros(64 * MEBIBYTE, dtype=np.uint8))
    path = zipped(tmp_path, ("topk_ids.npy", npy(IDS)), ("other.npy", other))
    tracemalloc.start()
    try:
        assert moeopt.load_trace(path).tokens == 5
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * MEBIBYTE


def test_a_file_beyond_the_limit_is_not_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The size on disk is bounded as well."""
    path = saved(tmp_path, topk_ids=IDS)
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", path.stat().st_size)
    assert moeopt.load_trace(path).tokens == 5
    monkeypatch.setattr(limits, "MAX_FILE_BYTES", path.stat().st_size - 1)
    assert refusal(path).startswith("larger than")


def test_a_wrong_checksum_is_noticed(tmp_path: Path) -> None:
    """One flipped bit in the data of a stored member."""
    path = zipped(tmp_path, ("topk_ids.npy", npy(IDS)), compression=zipfile.ZIP_STORED)
    content = bytearray(path.read_bytes())
    content[content.index(IDS.tobytes()) + 7] ^= 1
    path.write_bytes(content)
    assert refusal(path) == "not a usable npz file: Bad CRC-32 for file 'topk_ids.npy'"


def patched(folder: Path, local: int, central: int, value: int) -> Path:
    """Return a zip file with one byte changed in both of its headers."""
    path = zipped(folder, ("topk_ids.npy", npy(IDS)))
    content = bytearray(path.read_bytes())
    content[local] = value
    content[content.index(b"PK\x01\x02") + central] = value
    path.write_bytes(content)
    return path


def test_an_encrypted_trace_is_refused(tmp_path: Path) -> None:
    """Flag bit 0 asks for a password."""
    assert "is encrypted" in refusal(patched(tmp_path, 6, 8, 1))


def test_an_unknown_compression_is_refused(tmp_path: Path) -> None:
    """Method 99 is none that Python knows."""
    assert "compression method is not supported" in refusal(patched(tmp_path, 8, 10, 99))


@pytest.mark.parametrize("compression", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_corrupted_compressed_stream_is_refused(compression: int, tmp_path: Path) -> None:
    """Every decompressor has an exception of its own."""
    path = zipped(tmp_path, ("topk_ids.npy", npy(IDS)), compression=compression)
    content = bytearray(path.read_bytes())
    start = content.index(b"topk_ids.npy") + len("topk_ids.npy")
    content[start + 8 : start + 20] = b"\xff" * 12
    path.write_bytes(content)
    assert refusal(path).startswith(("not a usable npz file: ", "cannot be read: "))


def test_a_numpy_file_with_a_zip_file_behind_it_is_refused(tmp_path: Path) -> None:
    """Such a file is both: what was checked must be what is read."""
    path = saved(tmp_path, topk_ids=IDS)
    path.write_bytes(TEN_TERABYTES + path.read_bytes())
    assert refusal(path).startswith("not a usable npz file")


@pytest.mark.parametrize(
    "content",
    [b"", b"junk" * 100, npy(IDS), b"PK\x03\x04" + bytes(100)],
    ids=["empty", "junk", "a bare array", "a beginning"],
)
def test_a_file_that_is_no_zip_file_is_refused(content: bytes, tmp_path: Path) -> None:
    """Empty, random, a bare array, the beginning of a zip file."""
    path = tmp_path / "trace.npz"
    path.write_bytes(content)
    assert refusal(path) == "not a usable npz file: File is not a zip file"


def test_a_truncated_file_is_refused(tmp_path: Path) -> None:
    """Any prefix of a good file is a bad one."""
    path = saved(tmp_path, topk_ids=IDS, topk_weights=WEIGHTS)
    content = path.read_bytes()
    for length in range(0, len(content), 37):
        path.write_bytes(content[:length])
        assert refusal(path).startswith("not a usable npz file: ")


@pytest.mark.parametrize("task", ["intent", "law", "summary"])
def test_counts_of_a_real_trace_are_the_published_ones(task: str) -> None:
    """ESFT publishes each expert's share of its tokens to four digits, for every layer."""
    path = real_trace_file(f"esft_deepseek_v2_lite/{task}.npz")
    trace = moeopt.load_trace(path)
    assert trace.topk_ids.shape[1:] == (26, 6)
    published = json.loads(path.with_name(f"{task}_summary.json").read_text())["token_scores"]
    everything = np.arange(trace.tokens)
    for layer in range(trace.layers):
        shares = trace.counts(everything, layer, 64) / (trace.tokens * 6)
        expected = [published[str(layer + 1)][str(expert)] for expert in range(64)]
        assert shares == pytest.approx(expected, abs=5.1e-5)


@pytest.mark.parametrize(
    ("file", "experts"),
    [("esft_deepseek_v2_lite/law.npz", 64), ("hdmoe_mixtral_8x7b/writing.npz", 8)],
)
def test_counts_of_a_real_trace_are_those_of_a_plain_loop(file: str, experts: int) -> None:
    """The member's bytes, unpacked without numpy, counted one by one."""
    path = real_trace_file(file)
    trace = moeopt.load_trace(path)
    tokens, layers, top_k = trace.topk_ids.shape
    with zipfile.ZipFile(path) as archive:
        content = archive.read("topk_ids.npy")[-tokens * layers * top_k :]  # one byte per id
    layer, counter = 11, Counter[int]()
    for token in range(1000):
        start = (token * layers + layer) * top_k
        counter.update(content[start : start + top_k])
    counts = trace.counts(np.arange(1000), layer, experts)
    assert counts.tolist() == [counter[expert] for expert in range(experts)]
