"""Instance and solution files: hostile ones give one clear line, good ones come back the same."""

import contextlib
import copy
import errno
import gzip
import json
import os
import re
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import moeopt
from moeopt import InputError
from tests.rooms.core import json_files as files
from tests.rooms.tri_domain import Instance, Solution

VALID: dict[str, Any] = {
    "problem": "tri_domain",
    "schema_version": 1,
    "name": "two experts, one of each layout",
    "provenance": {"origin": "by hand", "numbers": [1, 2.5, None], "note": "Grüße"},
    "quantum_ns": 5000,
    "dimms": 2,
    "experts": [
        {
            "expert": 3,
            "tokens": 20,
            "resident": True,
            "dimm": None,
            "gpu_ns": 50_000,
            "cpu_ns": 155_000,
            "ndp_ns": None,
            "gpu_dram_ns": 0,
            "cpu_dram_ns": 155_000,
        },
        {
            "expert": 5,
            "tokens": 1,
            "resident": False,
            "dimm": 1,
            "gpu_ns": 1_230_000,
            "cpu_ns": 1_230_000,
            "ndp_ns": 310_000,
            "gpu_dram_ns": 1_230_000,
            "cpu_dram_ns": 1_230_000,
        },
    ],
}

VALID_SOLUTION: dict[str, Any] = {
    "problem": "tri_domain",
    "instance": "two experts, one of each layout",
    "assignment": ["gpu", "ndp"],
}

DELETE = object()


def put(data: dict[str, Any], place: Sequence[str | int], value: Any) -> None:
    """Set, or delete, what stands at a place of a JSON object."""
    target: Any = data
    for part in place[:-1]:
        target = target[part]
    if value is DELETE:
        del target[place[-1]]
    else:
        target[place[-1]] = value


def edited(field: str, raw: Any, base: dict[str, Any] = VALID) -> str:
    """Return a valid file's text with one field, named as in messages, replaced by raw text."""
    place = [int(row) if row else key for row, key in re.findall(r"(\d+)|(\w+)", field)]
    data = copy.deepcopy(base)
    put(data, place, raw if raw is DELETE else "@here@")
    return json.dumps(data).replace('"@here@"', raw if isinstance(raw, str) else "")


def error_of(path: Path, read: Callable[[Path], Any] = moeopt.load) -> str:
    """Return what the InputError says after the file's name; it must be one printable line."""
    with pytest.raises(InputError) as caught:
        read(path)
    message = str(caught.value)
    assert message.isprintable()  # no line break and no terminal escape, either
    assert message.startswith(f"{path}: ")
    return message.removeprefix(f"{path}: ")


def written(folder: Path, content: str | bytes, name: str = "case.json") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def case(label: str, field: str, raw: Any, says: str) -> Any:
    return pytest.param(field, raw, says, id=label)


BAD_FIELDS = [
    case("float", "experts[0].gpu_ns", "5.5", "must be an integer, not 5.5"),
    case("negative", "experts[1].cpu_ns", "-1", "must be at least 0, not -1"),
    case(
        "too large",
        "experts[0].gpu_ns",
        str(2**42 + 1),
        "must be at most 4398046511104, not 439",
    ),
    case("far too large", "experts[0].tokens", "9" * 400, "must be at most 4398046511104, not 999"),
    case("null for an integer", "experts[0].cpu_ns", "null", "must be an integer, not null"),
    case("1 for a flag", "experts[0].resident", "1", "must be true or false, not 1"),
    case("missing in an expert", "experts[1].cpu_ns", DELETE, "is missing"),
    case("missing dimms", "dimms", DELETE, "is missing"),
    case("missing name", "name", DELETE, "is missing"),
    case("missing experts", "experts", DELETE, "is missing"),
    case("missing problem", "problem", DELETE, "is missing"),
    case("missing schema_version", "schema_version", DELETE, "is missing"),
    case("extra key at the top", "seed", "1", "is not a known key"),
    case("extra key in an expert", "experts[1].npd_ns", "1", "is not a known key"),
    case("unknown problem", "problem", '"knapsack"', "known problems: tri_domain"),
    case("problem not a string", "problem", "7", "7 is unknown"),
    case("problem an object", "problem", "{}", "an object is unknown"),
    case("schema_version 3", "schema_version", "3", "must be at most 2, not 3"),
    case("schema_version 0", "schema_version", "0", "must be at least 1, not 0"),
    case("dimm out of range", "experts[1].dimm", "2", "must be below dimms = 2, not 2"),
    case("negative dimm", "experts[1].dimm", "-1", "must be at least 0, not -1"),
    case(
        "ndp_ns of a striped expert", "experts[0].ndp_ns", "9", "must be null because dimm is null"
    ),
    case(
        "no ndp_ns of a localized expert",
        "experts[1].ndp_ns",
        "null",
        "because dimm is not null",
    ),
    case("resident read from the host", "experts[0].gpu_dram_ns", "1", "because resident is true"),
    case("no tokens", "experts[0].tokens", "0", "must be at least 1, not 0"),
    case("expert twice", "experts[1].expert", "3", "3 stands already in experts[0]"),
    case("no experts", "experts", "[]", "at least 1 item"),
    case("experts an object", "experts", '{"0": {}}', "must be a list, not an object"),
    case("experts a string", "experts", '"ab"', 'must be a list, not "ab"'),
    case("expert a number", "experts[1]", "5", "must be an object, not 5"),
    case("NaN", "experts[0].gpu_ns", "NaN", "of usable size, not NaN"),
    case("Infinity", "experts[1].ndp_ns", "Infinity", "of usable size, not Infinity"),
    case("-Infinity", "quantum_ns", "-Infinity", "of usable size, not -Infinity"),
    case("float beyond all", "experts[0].gpu_ns", "1e400", "of usable size, not 1e400"),
    case("5000 digits", "experts[0].gpu_ns", "9" * 5000, "of usable size, not 999"),
    case("5000 digits below 0", "dimms", "-" + "9" * 5000, "of usable size, not -999"),
    case("NaN in the provenance", "provenance.numbers[1]", "NaN", "of usable size, not NaN"),
    case("1e400 in the provenance", "provenance.numbers[2]", "1e400", "not 1e400"),
    case("no dimms", "dimms", "0", "must be at least 1, not 0"),
    case("a million dimms", "dimms", "1000000", "must be at most 1024, not 1000000"),
    case("empty name", "name", '""', "at least 1 character"),
    case("name with a line break", "name", '"a\\nb"', "must have no control characters"),
    case("name with an escape", "name", '"\\u001b[2J"', "must have no control characters"),
    case("name that reverses text", "name", '"a\\u202eb"', "must have no control characters"),
    case("long name", "name", f'"{"x" * 201}"', "at most 200 characters"),
    case("name a number", "name", "5", "must be a string, not 5"),
    case("provenance a list", "provenance", "[]", "must be an object, not a list"),
    case("quantum 0", "quantum_ns", "0", "must be at least 1, not 0"),
]


@pytest.mark.parametrize(("field", "raw", "says"), BAD_FIELDS)
def test_a_bad_field_is_named_with_its_reason(
    field: str, raw: Any, says: str, tmp_path: Path
) -> None:
    """One wrong value: the message is file, field, reason."""
    message = error_of(written(tmp_path, edited(field, raw)))
    assert message.startswith(f"{field}: ")
    assert says in message.removeprefix(f"{field}: ")


INTEGERS = ["schema_version", "quantum_ns", "dimms"] + [
    f"experts[1].{key}" for key, value in VALID["experts"][1].items() if type(value) is int
]


@pytest.mark.parametrize("field", INTEGERS)
@pytest.mark.parametrize("raw", ['"1"', "1.0", "1e0", "true", "[1]", '{"value": 1}'])
def test_only_an_integer_is_an_integer(field: str, raw: str, tmp_path: Path) -> None:
    """No number field of an instance takes what could be read as a number."""
    message = error_of(written(tmp_path, edited(field, raw)))
    assert message.startswith(f"{field}: must be an integer, not ")


def test_the_unedited_file_is_valid(tmp_path: Path) -> None:
    """What the cases above start from is itself without fault."""
    instance = moeopt.load(written(tmp_path, json.dumps(VALID)))
    assert instance.model_dump(mode="json") == VALID


UNUSABLE_TEXTS = {
    "empty": (b"", "is empty, not JSON"),
    "truncated": (json.dumps(VALID)[:80].encode(), "not valid JSON at line 1 column"),
    "two values": (json.dumps(VALID).encode() + b"{}", "not valid JSON at line 1 column"),
    "list at the top": (b"[]", "must hold one JSON object, not a list"),
    "number at the top": (b"5", "must hold one JSON object, not the value 5"),
    "true at the top": (b"true", "must hold one JSON object, not the value true"),
    "null at the top": (b"null", "must hold one JSON object, not null"),
    "key twice": (b'{"name": "a", "name": "b"}', 'key "name" stands twice'),
    "key twice inside": (edited("experts[0]", '{"a": 1, "a": 1}').encode(), 'key "a" stands twice'),
    "not UTF-8": (b'{"name": "\xff"}', "not UTF-8 text at byte 10"),
    "Latin-1": ('{"name": "Grüße"}'.encode("latin-1"), "not UTF-8 text at byte 12"),
    "UTF-16": (json.dumps(VALID).encode("utf-16"), "not UTF-8 text at byte 0"),
    "UTF-16 without mark": (json.dumps(VALID).encode("utf-16-le"), "not valid JSON at line 1"),
    "zero bytes": (b"\0" * 100, "not valid JSON at line 1 column 1"),
}


@pytest.mark.parametrize(("content", "says"), UNUSABLE_TEXTS.values(), ids=UNUSABLE_TEXTS)
def test_an_unusable_text_is_refused_with_its_reason(
    content: bytes, says: str, tmp_path: Path
) -> None:
    """Files that are not one JSON object of finite numbers and different keys."""
    assert says in error_of(written(tmp_path, content))


@pytest.mark.parametrize("bracket", ["[", '{"a":'], ids=["lists", "objects"])
def test_megabytes_of_nesting_are_refused_at_once(bracket: str, tmp_path: Path) -> None:
    """Deep nesting neither overflows the stack nor takes long."""
    path = written(tmp_path, bracket * 2_000_000)
    start = time.process_time()
    assert error_of(path) == "has too many lists and objects for its size"
    assert time.process_time() - start < 5
    path = written(tmp_path, bracket * 50_000)
    assert error_of(path) == "not usable: nested too deeply"


@pytest.mark.parametrize("depth", [100, 300, 600])
@pytest.mark.parametrize("field", ["schema_version", "problem", "dimms", "name"])
def test_a_nested_value_in_the_wrong_place_is_refused(
    field: str, depth: int, tmp_path: Path
) -> None:
    """Nesting that JSON still reads is not followed by whatever writes the message."""
    path = written(tmp_path, edited(field, "[" * depth + "]" * depth))
    assert error_of(path).startswith(f"{field}: ")


def test_a_duplicate_among_many_keys_is_found_at_once(tmp_path: Path) -> None:
    """The search for the key that stands twice is not quadratic."""
    keys = [f'"{number}": 0' for number in range(40_000)]
    path = written(tmp_path, "{" + ", ".join([*keys, '"z": 1', '"z": 2']) + "}")
    start = time.process_time()
    assert error_of(path) == 'not usable: key "z" stands twice in one object'
    assert time.process_time() - start < 4


LONG = "b" * 100_000


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (edited(LONG, "1"), "bbb...: is not a known key"),
        (edited("name", f'"{LONG}"'), "bbb..."),
        (edited("experts[0].gpu_ns", f'"{LONG}"'), "bbb..."),
        ("9" * 900, "not the value 999"),
        (f'{{"{LONG}": 1, "{LONG}": 2}}', "bbb... stands twice"),
    ],
    ids=["key", "name", "value", "digits", "key twice"],
)
def test_a_message_stays_short_whatever_the_file_holds(
    content: str, says: str, tmp_path: Path
) -> None:
    """Long keys and values are cut."""
    message = error_of(written(tmp_path, content))
    assert says in message
    assert len(message) < 200


@pytest.mark.parametrize("character", ["\n", "\r", "\x1b", "\x9b", "\x85", "\u2028", "\ud800"])
def test_no_character_of_a_file_breaks_the_line(character: str, tmp_path: Path) -> None:
    """Line breaks, terminal escapes and lone surrogates are shown escaped."""
    key, value = json.dumps(f"a{character}b"), json.dumps(f"c{character}d")
    texts = [
        edited("experts[0].gpu_ns", value),
        edited("problem", value),
        json.dumps(VALID).replace("{", f"{{{key}: 1, ", 1),
        f"{{{key}: 1, {key}: 2}}",
    ]
    for text in texts:
        assert "\\" in error_of(written(tmp_path, text))


def test_a_folder_is_not_a_file(tmp_path: Path) -> None:
    """Naming a folder gives the system's reason."""
    assert error_of(tmp_path) == "is a folder; name a file in it"


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """Naming nothing gives the system's reason."""
    assert error_of(tmp_path / "absent.json") == "cannot be read: No such file or directory"


def test_a_dangling_link_is_named(tmp_path: Path) -> None:
    """A link to nothing is reported under its own name."""
    link = tmp_path / "link.json"
    link.symlink_to(tmp_path / "absent.json")
    assert error_of(link) == "cannot be read: No such file or directory"


def test_a_file_without_read_permission_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The refusal is simulated, because the superuser may read everything."""
    path = written(tmp_path, json.dumps(VALID))

    def refuse(*_: Any, **__: Any) -> NoReturn:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "open", refuse)
    assert error_of(path) == "cannot be read: Permission denied"


def test_a_path_with_a_zero_byte_is_an_input_error() -> None:
    """Such a path comes from a script's mistake, not from a file system."""
    with pytest.raises(InputError, match="cannot be read: embedded null byte"):
        moeopt.load("a\0b.json")
    with pytest.raises(InputError, match="cannot be written: embedded null byte"):
        moeopt.save(VALID, "a\0b.json")


COMPRESSED = gzip.compress(json.dumps(VALID).encode())
FLIPPED = COMPRESSED[:40] + bytes([COMPRESSED[40] ^ 255]) + COMPRESSED[41:]


@pytest.mark.parametrize(
    "content",
    [COMPRESSED[:-20], COMPRESSED[:5], json.dumps(VALID).encode(), COMPRESSED + b"x", FLIPPED],
    ids=["truncated", "header only", "not gzip", "something behind", "corrupted"],
)
def test_a_broken_gzip_file_is_refused(content: bytes, tmp_path: Path) -> None:
    """Every way in which decompression fails gives the same sentence."""
    path = written(tmp_path, content, "case.json.gz")
    assert error_of(path) == "not a complete gzip file"


def test_a_gzip_file_of_nothing_is_refused(tmp_path: Path) -> None:
    """An empty file reads as an empty text, compressed or not."""
    assert error_of(written(tmp_path, b"", "case.json.gz")) == "is empty, not JSON"


@pytest.mark.parametrize("name", ["bomb.json.gz", "large.json"])
def test_a_bomb_is_read_no_further_than_the_limit(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reading stops at the limit: memory stays near it, and the rest is never expanded."""
    mebibyte = 2**20
    monkeypatch.setattr(files, "MAX_FILE_BYTES", mebibyte)
    block = b" " * (16 * mebibyte)
    content = gzip.compress(block, 1) * 64 if name.endswith("gz") else block
    path = written(tmp_path, content, name)
    tracemalloc.start()
    try:
        assert error_of(path) == "larger than 1 MiB"
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 4 * mebibyte


def test_a_file_of_exactly_the_limit_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit itself is allowed, one byte more is not."""
    text = json.dumps(VALID).encode()
    monkeypatch.setattr(files, "MAX_FILE_BYTES", len(text))
    assert moeopt.load(written(tmp_path, text)).name == VALID["name"]
    assert error_of(written(tmp_path, text + b" ")).startswith("larger than")


BAD_SOLUTIONS = [
    case("unknown domain", "assignment[1]", '"tpu"', "must be 'gpu', 'cpu' or 'ndp', not \"tpu\""),
    case("domain a number", "assignment[0]", "1", "must be 'gpu', 'cpu' or 'ndp', not 1"),
    case("no assignment", "assignment", DELETE, "is missing"),
    case("assignment a string", "assignment", '"gpu"', 'must be a list, not "gpu"'),
    case("assignment an object", "assignment", "{}", "must be a list, not an object"),
    case("extra key", "makespan_ns", "1", "is not a known key"),
    case("wrong problem", "problem", '"layouts"', '"layouts" is unknown'),
    case("no problem", "problem", DELETE, "is missing"),
    case("no instance", "instance", DELETE, "is missing"),
    case("empty instance", "instance", '""', "at least 1 character"),
    case("instance a number", "instance", "3", "must be a string, not 3"),
]


@pytest.mark.parametrize(("field", "raw", "says"), BAD_SOLUTIONS)
def test_a_bad_solution_is_refused_with_field_and_reason(
    field: str, raw: Any, says: str, tmp_path: Path
) -> None:
    """Solutions are read as strictly as instances."""
    message = error_of(written(tmp_path, edited(field, raw, VALID_SOLUTION)), moeopt.load_solution)
    assert message.startswith(f"{field}: ")
    assert says in message.removeprefix(f"{field}: ")


def test_an_instance_is_not_a_solution_and_the_other_way_round(tmp_path: Path) -> None:
    """Files given in the wrong order are told apart."""
    instance = written(tmp_path, json.dumps(VALID), "instance.json")
    solution = written(tmp_path, json.dumps(VALID_SOLUTION), "solution.json")
    assert error_of(instance, moeopt.load_solution).startswith("is an instance, not a")
    assert error_of(solution).startswith("is a solution of ")


def test_a_solution_may_leave_an_expert_out(tmp_path: Path) -> None:
    """Null is read, so that the checker can report it."""
    path = written(tmp_path, edited("assignment[0]", "null", VALID_SOLUTION))
    assert moeopt.load_solution(path).assignment == (None, "ndp")


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
@pytest.mark.parametrize(
    ("thing", "read"),
    [
        (Instance.model_validate(VALID), moeopt.load),
        (Solution.model_validate(VALID_SOLUTION), moeopt.load_solution),
    ],
    ids=["instance", "solution"],
)
def test_what_was_saved_is_loaded_the_same(
    thing: Any, read: Callable[[Path], Any], name: str, tmp_path: Path
) -> None:
    """Saving and loading changes nothing."""
    moeopt.save(thing, tmp_path / name)
    assert read(tmp_path / name) == thing


@pytest.mark.parametrize("name", ["x.json", "x.json.gz"])
def test_saving_twice_gives_the_same_bytes(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the clock nor the place leaves a trace in the file."""
    instance = Instance.model_validate(VALID)
    other = tmp_path / "elsewhere"
    other.mkdir()
    moeopt.save(instance, tmp_path / name)
    monkeypatch.setattr(time, "time", lambda: 2_000_000_000.0)
    moeopt.save(instance, other / f"another-{name}")
    assert (tmp_path / name).read_bytes() == (other / f"another-{name}").read_bytes()


def test_a_saved_file_can_be_read_line_by_line(tmp_path: Path) -> None:
    """One line per field and per expert, text as it is: what a version control shows well."""
    moeopt.save(Instance.model_validate(VALID), tmp_path / "x.json")
    lines = (tmp_path / "x.json").read_text(encoding="utf-8").splitlines()
    assert len(lines) == 2 + len(VALID) + len(VALID["experts"]) + 1
    assert any("Grüße" in line for line in lines)


def test_the_suffix_decides_on_compression(tmp_path: Path) -> None:
    """A .gz file is gzip with the very text of the plain one."""
    instance = Instance.model_validate(VALID)
    for name in ("x.json", "x.json.gz"):
        moeopt.save(instance, tmp_path / name)
    packed = (tmp_path / "x.json.gz").read_bytes()
    assert packed[:2] == b"\x1f\x8b"
    assert gzip.decompress(packed) == (tmp_path / "x.json").read_bytes()


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    """Some editors write one."""
    path = written(tmp_path, b"\xef\xbb\xbf" + json.dumps(VALID).encode())
    assert moeopt.load(path) == Instance.model_validate(VALID)


@pytest.mark.parametrize("failure", [OSError(errno.ENOSPC, "disk full"), KeyboardInterrupt()])
@pytest.mark.parametrize("step", ["replace", "chmod"])
def test_an_interrupted_write_changes_nothing(
    failure: BaseException, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old file stays whole and no temporary file stays behind."""
    path = written(tmp_path, "the old content")

    def fail(*_: Any, **__: Any) -> NoReturn:
        raise failure

    monkeypatch.setattr(Path, step, fail)
    expected = InputError if isinstance(failure, OSError) else KeyboardInterrupt
    with pytest.raises(expected):
        moeopt.save(VALID, path)
    assert path.read_text() == "the old content"
    assert list(tmp_path.iterdir()) == [path]


UNWRITABLE = {
    "NaN": {"x": float("nan")},
    "infinite": {"x": float("inf")},
    "a set": {"x": {1}},
    "a lone surrogate": {"x": "\ud800"},
    "itself": None,
}


@pytest.mark.parametrize("data", UNWRITABLE.values(), ids=UNWRITABLE)
def test_what_is_not_json_is_not_written(data: dict[str, Any] | None, tmp_path: Path) -> None:
    """An object without a JSON text gives a reason and leaves the old file alone."""
    if data is None:
        data = {}
        data["x"] = data
    path = written(tmp_path, "the old content")
    reason = error_of(path, lambda target: moeopt.save(data, target))
    assert reason.startswith("cannot be written: ")
    assert path.read_text() == "the old content"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    ("target", "reason"), [("absent/x.json", "No such file or directory"), ("", "Is a directory")]
)
def test_a_place_that_cannot_be_written_is_named(target: str, reason: str, tmp_path: Path) -> None:
    """A missing folder and a folder instead of a file, with the system's reason."""
    path = tmp_path / target
    message = error_of(path, lambda place: moeopt.save(VALID, place))
    assert message == f"cannot be written: {reason}"


def test_provenance_nested_beyond_what_can_be_saved_gives_a_reason(tmp_path: Path) -> None:
    """Reading goes deeper than writing; the difference is an error with a reason."""
    deep = "[" * 300 + "]" * 300
    instance = moeopt.load(written(tmp_path, edited("provenance", f'{{"x": {deep}}}')))
    with pytest.raises(InputError, match=r"cannot be written: .*depth"):
        moeopt.save(instance, tmp_path / "copy.json")


def places(value: Any, at: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the path of everything inside a JSON value, and of a key that is not there."""
    if isinstance(value, dict):
        yield (*at, "unheard of")
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner:
        yield (*at, key)
        if isinstance(item, dict | list):
            yield from places(item, (*at, key))


ANY_TEXT = st.text(st.characters(), max_size=8)
ANY_NUMBER = st.integers() | st.integers(-1, 3) | st.floats() | st.just(2**42 + 1)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | ANY_NUMBER | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=12,
)


def outcome(path: Path) -> InputError | None:
    """Load a file; what is accepted must come back the same from a copy. Return what is wrong."""
    try:
        instance = moeopt.load(path)
    except InputError as error:
        return error
    assert isinstance(instance, Instance)
    duplicate = path.with_name(f"copy-{path.name}")
    moeopt.save(instance, duplicate)  # whatever is read can be written
    assert moeopt.load(duplicate) == instance
    return None


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "case.json"


@settings(max_examples=250)
@example([(("provenance",), {"\ud800": None})])
@example([(("provenance",), {"half": "\udc00"})])
@example([(("provenance",), {"\U0001f600": "\U0001f600"})])
@given(st.lists(st.tuples(st.sampled_from(list(places(VALID))), ANY_JSON), min_size=1, max_size=3))
def test_any_value_at_any_place_is_valid_or_an_input_error(
    scratch: Path, changes: list[tuple[tuple[str | int, ...], Any]]
) -> None:
    """No JSON value anywhere brings out another exception or a second line."""
    data = copy.deepcopy(VALID)
    for place, value in changes:
        # The first change may have removed the place of the second.
        with contextlib.suppress(KeyError, IndexError, TypeError):
            put(data, place, value)
    scratch.write_text(json.dumps(data))
    error = outcome(scratch)
    assert error is None or str(error).isprintable()


def test_a_million_bad_rows_give_one_error(tmp_path: Path) -> None:
    """The first bad row ends the reading: a small file does not fill the memory with errors."""
    rows = "[" + ",".join(["5"] * 1_000_000) + "]"
    message = error_of(written(tmp_path, edited("experts", rows)))
    assert message.startswith("experts[0]: must be an object")
    more = re.search(r"\(and (\d+) more\)$", message)
    assert more is None or int(more[1]) < 10


def test_a_pipe_is_written_to_and_not_replaced(tmp_path: Path) -> None:
    """As /dev/stdout is: what is no regular file stays what it is."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    moeopt.save({"a": 1}, pipe)
    assert json.loads(os.read(reader, 100)) == {"a": 1}
    os.close(reader)
    assert pipe.is_fifo()


@pytest.mark.parametrize("problem", ["tri_domain", "relayout", "layout", "bitwidth"])
def test_files_of_both_versions_are_read_alike(problem: str, root: Path) -> None:
    """Of the library, whose newer files say 2: the same instance, with the same version."""
    files = sorted((root / "instances" / problem).glob("*/*.json"))
    newer = next(file for file in files if '"schema_version": 2' in file.read_text()[:200])
    instance = moeopt.load(newer)
    assert type(instance).model_validate(instance.model_dump() | {"schema_version": 1}) == instance
    assert instance.schema_version == 2
