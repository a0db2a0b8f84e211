"""What cache simulators read, from their formats' descriptions, and what they do with it.

csv and webcachesim: a request per line, time, object and size; times never fall. oracleGeneral:
24 bytes per request, little-endian and unpadded: u32 time, u64 object, u32 size, i64 number of the
next request to the object, counted from 1, or -1.
"""

import struct
from collections.abc import Sequence

Request = tuple[int, int, int]
"""Time, object, size."""


def csv_requests(text: str) -> list[Request]:
    """Return the requests of a csv file with a header."""
    header, *lines = text.splitlines()
    assert header == "time,id,size"
    return valid([_numbers(line, ",") for line in lines])


def oracle_requests(payload: bytes) -> tuple[list[Request], list[int]]:
    """Return the requests of an oracleGeneral file, and the next access of each."""
    records = list(struct.iter_unpack("<IQIq", payload))
    assert struct.calcsize("<IQIq") == 24
    return valid([record[:3] for record in records]), [record[3] for record in records]


def valid(requests: list[Request]) -> list[Request]:
    """Return requests whose times never fall, with sizes of at least 1 and no negative objects."""
    times = [time for time, _, _ in requests]
    assert times == sorted(times)
    assert all(size >= 1 and name >= 0 for _, name, size in requests)
    return requests


def lru_hits(objects: Sequence[int], capacity: int) -> int:
    """Return the hits of one LRU cache of equally large objects."""
    content: dict[int, None] = {}
    hits = 0
    for name in objects:
        hits += name in content
        content.pop(name, None)
        content[name] = None
        while len(content) > capacity:
            del content[next(iter(content))]
    return hits


def belady_hits(objects: Sequence[int], following: Sequence[int], capacity: int) -> int:
    """Return the hits of evicting what comes back last, told by the file's own next accesses."""
    content: dict[int, float] = {}
    hits = 0
    for name, after in zip(objects, following, strict=True):
        hits += name in content
        content[name] = after if after >= 0 else float("inf")
        if len(content) > capacity:
            del content[max(content, key=lambda key: content[key])]
    return hits


def _numbers(line: str, separator: str) -> Request:
    time, name, size = map(int, line.split(separator))
    return time, name, size
