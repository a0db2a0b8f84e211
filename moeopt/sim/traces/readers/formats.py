"""Which formats are known, and which one a file is in."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from moeopt.core.errors import InputError
from moeopt.core.reading import reading
from moeopt.sim.traces.readers.limits import read_head


@dataclass(frozen=True)
class Format:
    """A format and the functions that read it, as "module:function", imported when needed."""

    what: str
    trace: str | None = None
    counts: str | None = None


FORMATS = {
    "topk-npz": Format("npz with topk_ids: moeopt's own", "topk_npz:read_topk_npz"),
    "routed-experts-npz": Format(
        "npz with routed_experts, of one request or a folder", "routed_experts:read_routed_npz"
    ),
    "routed-experts-json": Format(
        "answers of vLLM or SGLang with routed_experts", "routed_experts:read_routed_json"
    ),
    "sglang-pt": Format(
        "SGLang's recorder, one rank or a folder of ranks",
        "sglang:read_sglang_trace",
        "sglang:read_sglang_counts",
    ),
    "count-csv": Format(
        "layer,expert,count[,frac_of_layer] or SGLang's old layer_id,expert_id,count",
        counts="count_csv:read_count_csv",
    ),
    "moe-trace-csv": Format(
        "pos,layer,id,...: llama-moe-trace of a fork of llama.cpp", "moe_trace_csv:read_moe_trace"
    ),
    "imatrix-gguf": Format(
        "importance matrix of llama.cpp (GGUF), counts only", counts="gguf:read_imatrix"
    ),
    "exflow-npy": Format("npy [token, layer], one expert each", "exflow_npy:read_exflow_npy"),
    "hdmoe-json": Format('{"layer": [[experts of a token], ...]}', "hdmoe_json:read_hdmoe_json"),
    "route-jsonl": Format("one object per token and layer", "route_jsonl:read_route_jsonl"),
    "moe-balance-jsonl": Format(
        "one object per batch and layer", "moe_balance_jsonl:read_moe_balance_jsonl"
    ),
    "esft-txt": Format("one text file per layer, or a folder", "esft_txt:read_esft_txt"),
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
            raise InputError(f"{path}: format: {given!r} is not known; known: {_known()}")
        return given
    with reading(path):
        path.stat()
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        raise InputError(f"{path}: format: cannot be told from the file; known: {_known()}")
    return found


def reader_of(function: str) -> Callable[..., Any]:
    """Return the function that stands as "module:function"."""
    module, _, name = function.partition(":")
    reader: Callable[..., Any] = getattr(import_module(f"moeopt.sim.traces.readers.{module}"), name)
    return reader


def _of_folder(path: Path) -> str | None:
    from moeopt.sim.traces.readers.text import PATTERN

    by_pattern = {
        PATTERN: "esft-txt",
        "*.pt": "sglang-pt",
        "*.csv": "count-csv",
        "*.npz": "routed-experts-npz",
    }
    found = [name for pattern, name in by_pattern.items() if any(path.glob(pattern))]
    return found[0] if len(found) == 1 else None


def _of_file(path: Path) -> str | None:
    from moeopt.sim.traces.readers.npy import npz_names
    from moeopt.sim.traces.readers.text import is_moe_trace

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
