"""torch's files read without torch: real ones, and those made to do harm."""

import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.interop.refusals import MEBIBYTE, Bomb, frugal_refusal, refusal
from tests.interop.torch_files import ORDERED_DICT, Raw, pickled, saved, tensor, text, zipped
from tests.rooms.sim import read_torch, torch_zip

DATA = Path(__file__).parent / "data"
KINDS: dict[str, tuple[str, list[Any]]] = {
    "float64": ("f8", [1.5, -2.25]),
    "float32": ("f4", [1.5, -2.25]),
    "float16": ("f2", [1.5, -2.25]),
    "bfloat16": ("f4", [1.5, -2.25]),
    "int64": ("i8", [2**40, -3]),
    "int16": ("i2", [300, -3]),
    "int8": ("i1", [100, -3]),
    "uint8": ("u1", [200, 3]),
    "bool": ("?", [True, False]),
    "transposed": ("i8", [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]),
    "sliced": ("i8", [2, 5, 8]),
}


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_tensor_that_torch_wrote_is_read(name: str) -> None:
    """Numbers, shape and type, also of views into larger storages."""
    dtype, expected = KINDS[name]
    array = read_torch(DATA / "kinds.pt")[name]
    assert array.dtype == np.dtype(dtype)
    assert array.tolist() == expected


def test_plain_values_that_torch_wrote_are_read() -> None:
    """Everything but tensors, empty and 0-D tensors."""
    data = read_torch(DATA / "kinds.pt")
    assert data["plain"] == [1, -2, 2**70, 0.5, True, None, "text", (1, 2), {"a": []}]
    assert data["scalar"].shape == ()
    assert int(data["scalar"]) == 7
    assert data["none"].shape == (0, 3)


def test_the_other_byte_order_is_read(tmp_path: Path) -> None:
    """A file of a big-endian machine."""
    big = np.array([1, 2, 300], dtype=">i4").tobytes()
    path = saved(tmp_path / "x.pt", tensor("0", 3, (3,), (1,)), byteorder=b"big", **{"data/0": big})
    assert read_torch(path).tolist() == [1, 2, 300]


def test_a_file_written_here_is_as_one_written_by_torch(tmp_path: Path) -> None:
    """Otherwise the refusals below would prove nothing."""
    value = {
        "a": np.arange(6, dtype=np.int32).reshape(2, 3),
        "b": [1, -(2**40), "x", None, (True,)],
    }
    found = read_torch(saved(tmp_path / "x.pt", value))
    assert found["a"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert found["b"] == value["b"]


@pytest.mark.parametrize("protocol", range(6))
def test_a_pickle_bomb_does_not_go_off(protocol: int, tmp_path: Path) -> None:
    """Code in the pickle is refused by name and has not run."""
    marker = tmp_path / "it has run"
    payload = pickle.dumps({"records": [Bomb(marker)]}, protocol)
    path = zipped(tmp_path / "x.pt", {"data.pkl": payload, "byteorder": b"little"})
    assert refusal(path, read_torch).startswith("data.pkl: refused: ")
    assert not marker.exists()
    pickle.loads(payload)
    assert marker.exists()  # or the bomb would have been a dud


CALLS = {
    "os.system": Raw(b"cos\nsystem\n" + text("true") + b"\x85R"),
    "builtins.eval": Raw(b"cbuiltins\neval\n" + text("1") + b"\x85R"),
    "torch.load": Raw(b"ctorch\nload\n" + text("x") + b"\x85R"),
    "torch._utils._rebuild_tensor_v2.__globals__": Raw(
        b"ctorch._utils\n_rebuild_tensor_v2.__globals__\n)R"
    ),
    f"{torch_zip.__name__}.read_torch": Raw(
        text(torch_zip.__name__) + text("read_torch") + b"\x93)R"
    ),
}


@pytest.mark.parametrize("name", CALLS)
def test_only_tensors_and_ordered_dicts_may_be_called(name: str, tmp_path: Path) -> None:
    """The message names what the file wanted."""
    message = refusal(saved(tmp_path / "x.pt", [CALLS[name]]), read_torch)
    assert message == f'data.pkl: refused: it wants to call "{name}"'


OTHER_INSTRUCTIONS = {
    "BUILD": Raw(b"}}b"),
    "INST": Raw(b"(ios\nsystem\n"),
    "OBJ": Raw(b"(cos\nsystem\no"),
    "NEWOBJ": Raw(b"ccollections\nOrderedDict\n)\x81"),
    "EXT1": Raw(b"\x82\x01"),
    "PERSID": Raw(b"Pstorage\n"),
    "NEXT_BUFFER": Raw(b"\x97"),
}


@pytest.mark.parametrize("name", OTHER_INSTRUCTIONS)
def test_other_instructions_are_refused(name: str, tmp_path: Path) -> None:
    """Whatever makes objects or changes them."""
    message = refusal(saved(tmp_path / "x.pt", [OTHER_INSTRUCTIONS[name]]), read_torch)
    assert message == f"data.pkl: refused: instruction {name} is no plain data"


DAMAGED = {
    "no end": b"\x80\x02}",
    "empty": b"",
    "nothing on the stack": b"\x80\x02.",
    "no mark": b"\x80\x02K\x01t.",
    "items of no dict": b"\x80\x02](K\x01K\x02u.",
    "an empty memo": b"\x80\x02h\x05.",
    "a key that is a list": b"\x80\x02}(]K\x01u.",
    "a length beyond the end": b"\x80\x02X\xff\xff\xff\x7fabc.",
    "a text that is none": b"\x80\x02X\x01\x00\x00\x00\xff.",
    "protocol 9": b"\x80\x09N.",
    "room for two billion": b"\x80\x02]r\xff\xff\xff\x7f.",
}


@pytest.mark.parametrize("program", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_pickle_is_refused(program: bytes, tmp_path: Path) -> None:
    """Programs that no pickler writes."""
    path = zipped(tmp_path / "x.pt", {"data.pkl": program, "byteorder": b"little"})
    assert refusal(path, read_torch).startswith("data.pkl: ")


WRONG_TENSORS = {
    "ten gigabytes of four numbers": tensor("0", 4, (2_500_000_000,), (0,)),
    "repeated without end": tensor("0", 4, (5, 5), (0, 0)),
    "beyond the end": tensor("0", 4, (4,), (1,), offset=1),
    "before the beginning": tensor("0", 4, (4,), (1,), offset=-1),
    "a negative length": tensor("0", 4, (-1,), (1,)),
    "more lengths than strides": tensor("0", 4, (2, 2), (1,)),
    "a thousand axes": tensor("0", 4, (1,) * 1000, (1,) * 1000),
    "an endless integer": tensor("0", 4, (1 << 100_000,), (1,)),
    "more numbers than bytes": tensor("0", 5, (4,), (1,)),
    "an endless number of numbers": tensor("0", 1 << 100_000, (4,), (1,)),
    "a storage outside": tensor("../../etc/passwd", 4, (4,), (1,)),
    "an unknown kind": tensor("0", 4, (4,), (1,), storage="torch\nQInt8Storage\n"),
}


@pytest.mark.parametrize("program", WRONG_TENSORS.values(), ids=WRONG_TENSORS)
def test_a_tensor_beyond_its_data_is_refused(program: Raw, tmp_path: Path) -> None:
    """Shapes that lie cost no memory."""
    path = saved(tmp_path / "x.pt", {"x": program}, **{"data/0": bytes(16)})
    assert frugal_refusal(path, 4 * MEBIBYTE, read_torch)


def test_a_tensor_that_is_made_of_something_else_is_refused(tmp_path: Path) -> None:
    """Its storage must come from outside of the pickle."""
    rebuild = b"ctorch._utils\n_rebuild_tensor_v2\n"
    for arguments in ((1, 0, (1,), (1,), False, ORDERED_DICT), (), ([1], 0, (1,), (1,))):
        path = saved(tmp_path / "x.pt", Raw(rebuild + pickled(arguments) + b"R"))
        assert refusal(path, read_torch) == "data.pkl: damaged"


def test_a_zip_bomb_is_not_expanded(tmp_path: Path) -> None:
    """Torch stores without compression, so what is compressed is refused unread."""
    members = {"data.pkl": b"\x80\x02N.", "data/0": bytes(64 * MEBIBYTE)}
    path = zipped(tmp_path / "x.pt", members, zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < MEBIBYTE
    assert "is compressed" in frugal_refusal(path, 4 * MEBIBYTE, read_torch)


def test_a_storage_that_many_tensors_share_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them is a copy: together at most four times the file, where that is large."""
    monkeypatch.setattr(torch_zip, "FREE_BYTES", 0)
    shared = tensor("0", 1000, (1000,), (1,))
    for times, refused in ((3, False), (9, True)):
        content = b"\x80\x02" + pickled([shared] * times) + b"."
        members = {"data.pkl": content, "data/0": bytes(4000)}
        path = zipped(tmp_path / "x.pt", members, zipfile.ZIP_STORED)
        if refused:
            assert refusal(path, read_torch) == "data.pkl: tensors share a storage too often"
        else:
            assert len(read_torch(path)) == times


def test_what_the_members_declare_is_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of them together."""
    path = saved(tmp_path / "x.pt", np.zeros(1000, dtype=np.int32))
    size = sum(member.file_size for member in zipfile.ZipFile(path).infolist())
    monkeypatch.setattr(torch_zip, "MAX_STORAGE_BYTES", size)
    assert read_torch(path).shape == (1000,)
    monkeypatch.setattr(torch_zip, "MAX_STORAGE_BYTES", size - 1)
    assert refusal(path, read_torch).startswith("declares more than")


def test_a_program_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In length and in instructions; ten marks and ten numbers and the end are 13."""
    path = saved(tmp_path / "x.pt", list(range(10)))
    monkeypatch.setattr(torch_zip, "MAX_INSTRUCTIONS", 15)
    assert read_torch(path) == list(range(10))
    monkeypatch.setattr(torch_zip, "MAX_INSTRUCTIONS", 14)
    assert refusal(path, read_torch) == "data.pkl: more than 14 instructions"


def test_a_pickle_that_grows_when_looked_at_costs_nothing(tmp_path: Path) -> None:
    """A list of two of the list before, a hundred times over, is a hundred lists."""
    program = b"]q\x00" + b"".join(
        b"](h" + struct.pack("B", n) + b"h" + struct.pack("B", n) + b"eq" + struct.pack("B", n + 1)
        for n in range(100)
    )
    path = saved(tmp_path / "x.pt", {"records": Raw(b"(" + program + b"t")})
    assert len(read_torch(path)["records"]) == 101
    from tests.rooms.sim import read_sglang_counts

    assert refusal(path, read_sglang_counts)


def test_an_old_or_cut_file_is_refused(tmp_path: Path) -> None:
    """Before 1.6, torch wrote bare pickles; and any prefix of a good file is a bad one."""
    path = tmp_path / "x.pt"
    path.write_bytes(pickle.dumps({"rank": 0}))
    assert refusal(path, read_torch).startswith("not a zip file of torch.save")
    content = (DATA / "stat.pt").read_bytes()
    for length in range(0, len(content), 61):
        path.write_bytes(content[:length])
        assert refusal(path, read_torch).startswith("not a zip file of torch.save")
