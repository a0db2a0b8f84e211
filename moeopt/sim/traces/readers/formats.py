"""Which formats are known, and which one a file is in."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from moeopt.core.errors import InputError
from moeopt.core.untrusted import reading
from moeopt.core.wording import unknown
from moeopt.sim.traces.readers.checked import read_head
from moeopt.sim.traces.readers.json_traces import (
    read_hdmoe_json,
    read_moe_balance_jsonl,
    read_route_jsonl,
)
from moeopt.sim.traces.readers.runtimes import (
    read_imatrix,
    read_routed_json,
    read_routed_npz,
    read_sglang_counts,
    read_sglang_trace,
)
from moeopt.sim.traces.readers.text import (
    PATTERN,
    is_moe_trace,
    read_count_csv,
    read_esft_txt,
    read_moe_trace,
)
from moeopt.sim.traces.readers.topk_npz import npz_names, read_exflow_npy, read_topk_npz
from moeopt.sim.traces.trace import Counts, Trace


@dataclass(frozen=True)
class Format:
    """A format and the functions that read it."""

    what: str
    trace: Callable[[Path, int | None], Trace] | None = None
    counts: Callable[..., Counts] | None = None


FORMATS = {
    "topk-npz": Format("npz with topk_ids: moeopt's own", read_topk_npz),
    "routed-experts-npz": Format(
        "npz with routed_experts, of one request or a folder", read_routed_npz
    ),
    "routed-experts-json": Format(
        "answers of vLLM or SGLang with routed_experts", read_routed_json
    ),
    "sglang-pt": Format(
        "SGLang's recorder, one rank or a folder of ranks",
        read_sglang_trace,
        read_sglang_counts,
    ),
    "count-csv": Format(
        "layer,expert,count[,frac_of_layer] or SGLang's old layer_id,expert_id,count",
        counts=read_count_csv,
    ),
    "moe-trace-csv": Format(
        "pos,layer,id,...: llama-moe-trace of a fork of llama.cpp", read_moe_trace
    ),
    "imatrix-gguf": Format(
        "importance matrix of llama.cpp (GGUF), counts only", counts=read_imatrix
    ),
    "exflow-npy": Format("npy [token, layer], one expert each", read_exflow_npy),
    "hdmoe-json": Format('{"layer": [[experts of a token], ...]}', read_hdmoe_json),
    "route-jsonl": Format("one object per token and layer", read_route_jsonl),
    "moe-balance-jsonl": Format("one object per batch and layer", read_moe_balance_jsonl),
    "esft-txt": Format("one text file per layer, or a folder", read_esft_txt),
}
"""Name, as `format=` takes it -> what it is."""

_LAYERS_FIRST = re.compile(rb'\s*\{\s*"[0-9]+"\s*:\s*\[')


def format_of(path: Path, given: str | None) -> str:
    """Return the name of a file's or folder's format: the given one, or by name and content.

    Raises
    ------
    InputError
        If the format is not known or cannot be told; the message lists the known ones.
    """
    if given is not None:
        if given not in FORMATS:
            raise InputError(f"{path}: format: {unknown(given, FORMATS)}")
        return given
    with reading(path):
        path.stat()
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        raise InputError(f"{path}: format: cannot be told from the file; known: {_known()}")
    return found


def _of_folder(path: Path) -> str | None:
    by_pattern = {
        PATTERN: "esft-txt",
        "*.pt": "sglang-pt",
        "*.csv": "count-csv",
        "*.npz": "routed-experts-npz",
    }
    found = [name for pattern, name in by_pattern.items() if any(path.glob(pattern))]
    return found[0] if len(found) == 1 else None


def _of_file(path: Path) -> str | None:
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    if suffix == ".npz":
        names = npz_names(path)
        request = "routed_experts" in names and "topk_ids" not in names
        return "routed-experts-npz" if request else "topk-npz"
    plain = {".pt": "sglang-pt", ".pth": "sglang-pt", ".npy": "exflow-npy", ".csv": "count-csv"}
    plain[".gguf"] = "imatrix-gguf"
    if suffix == ".csv" and is_moe_trace(read_head(path)):
        return "moe-trace-csv"
    if suffix in plain:
        return plain[suffix]
    return _of_content(read_head(path), suffix)


def _of_content(head: bytes, suffix: str) -> str | None:
    """Return the format of a text by its first bytes, or of an unknown suffix by its magic."""
    if suffix == ".json":
        return "hdmoe-json" if _LAYERS_FIRST.match(head) else "routed-experts-json"
    if suffix == ".jsonl":
        fields = {
            b'"routed_experts"': "routed-experts-json",
            b'"meta_info"': "routed-experts-json",
            b'"choices"': "routed-experts-json",
            b'"topk_experts"': "moe-balance-jsonl",
        }
        return next((name for field, name in fields.items() if field in head), "route-jsonl")
    if suffix == ".txt":
        return "esft-txt" if re.match(rb"[0-9]+(\t|$)", head) else None
    if head.startswith(b"GGUF"):
        return "imatrix-gguf"
    return "exflow-npy" if head.startswith(b"\x93NUMPY") else None


def _known() -> str:
    return ", ".join(FORMATS)
