"""What was measured beside what ``moeopt predict`` says, without and with calibration."""

import csv
import json
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.harness.machine import versions
from benchmarks.real import llama_cpp
from benchmarks.real.setting import WIDTHS, Setting
from benchmarks.rooms.sim import ModelShape, cores_of, model_from_gguf
from moeopt import get_machine

KINDS = ("not calibrated", "own width", "other width")
"""Which points a prediction has seen: none, those of its own width, those of the other one."""

Row = dict[str, Any]


def compare(work: Path) -> dict[str, Any]:
    """Return the table as JSON data: every setting measured, and three predictions of each.

    Not calibrated; calibrated on two points of the same width and threads; calibrated on the same
    two points of the other width. The points that a calibration saw are marked `seen`.
    """
    about = _load(work / "measured" / "about.json")
    rows, bandwidth = [], {}
    for threads in about["threads"]:
        machine, each_gb_s = _machine(work, threads, about["rounds"])
        bandwidth[str(threads)] = each_gb_s
        found = {
            setting: _measured(work, setting, about, statistics.median_low(each_gb_s))
            for setting in Setting.all([threads])
        }
        for setting, row in found.items():
            row["predicted"] = {KINDS[0]: _predicted(work, machine, setting, row, seen=False)}
        for width in WIDTHS:
            points = {s: row for s, row in found.items() if s.calibrates and s.width == width}
            fitted = _calibrated(work, machine, points, f"t{threads}-{width.lower()}")
            for setting, row in found.items():
                kind = KINDS[1] if setting.width == width else KINDS[2]
                row["predicted"][kind] = _predicted(work, fitted, setting, row, setting in points)
        rows += found.values()
    sources = {llama_cpp.PACKAGE: llama_cpp.VERSION, "gguf": llama_cpp.GGUF_VERSION}
    return {
        "date": about["date"],
        "machine": about["machine"],
        "versions": versions() | sources | {"llama.cpp": rows[0]["build_commit"]},
        "read_bandwidth_gb_s": bandwidth,
        "tokens": about["tokens"],
        "rows": [{key: row[key] for key in row if key != "build_commit"} for row in rows],
    }


def bytes_per_token(model: ModelShape) -> int:
    """Return what decoding a token from an empty context reads: every matrix it uses, once.

    Attention, router, the experts used and the matrix to the vocabulary. Of the embedding only a
    row is read; norms and the KV cache of a few tokens are left out.
    """
    others = sum(model.bytes_of(kind) for kind in ("attention", "shared", "router", "head"))
    return others + model.bytes_of("experts") * model.top_k // model.routed_experts


def _machine(work: Path, threads: int, rounds: int) -> tuple[Path, list[float]]:
    """Return the machine file of the median bandwidth, and the bandwidths of all rounds, in GB/s.

    Of an even number the lower one of the middle.
    """
    files = [
        work / "measured" / f"machine-t{threads}-round{turn}.json" for turn in range(1, rounds + 1)
    ]
    each = [cores_of(get_machine(file), "interleaved").local_gb_s for file in files]
    return files[each.index(statistics.median_low(each))], each


def _measured(work: Path, setting: Setting, about: Row, bandwidth_gb_s: float) -> Row:
    """Return what llama-bench measured: the median, as a busy moment slows some repetitions."""
    names = [f"{setting}-round{turn}" for turn in range(1, about["rounds"] + 1)]
    runs = [run for name in names for run in _load(work / "measured" / f"{name}.json")]
    others = [about["others"][name] for name in names]
    speeds = sorted(speed for run in runs for speed in run["samples_ts"])
    model = model_from_gguf(work / "models" / setting.model)
    speed, read = statistics.median(speeds), bytes_per_token(model)
    gb_s = speed * read / 1e9
    return {
        "width": setting.width,
        "threads": setting.threads,
        "top_k": setting.top_k,
        "bytes_per_token": read,
        "repetitions": len(speeds),
        "tokens_per_s": round(speed, 3),
        "slowest": round(speeds[0], 3),
        "fastest": round(speeds[-1], 3),
        "read_gb_s": round(gb_s, 3),
        "of_bandwidth": round(gb_s / bandwidth_gb_s, 4),
        "others": None if None in others else max(others),
        "build_commit": runs[0]["build_commit"],
    }


def _calibrated(work: Path, machine: Path, points: dict[Setting, Row], name: str) -> Path:
    """Return the machine file that `moeopt calibrate` makes from these points."""
    table = work / "measured" / f"points-{name}.csv"
    with table.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["model", "runtime", "n_cpu_moe", "context", "tokens_per_s"])
        for setting, row in points.items():
            model = str(work / "models" / setting.model)
            writer.writerow([model, "llama.cpp", 0, 0, row["tokens_per_s"]])
    out = work / "measured" / f"calibrated-{name}.json"
    files = ["--machine", str(machine), "--points", str(table), "--out", str(out)]
    _moeopt("calibrate", *files)
    return out


def _predicted(work: Path, machine: Path, setting: Setting, row: Row, seen: bool) -> Row:
    """Return what `moeopt predict` says, and by how much the measured speed is missed."""
    model = str(work / "models" / setting.model)
    given = ["--machine", str(machine), "--model", model, "--runtime", "llama.cpp"]
    said = json.loads(_moeopt("predict", *given, "--context", "0", "--json"))
    speed = said["tokens_per_s"]
    error = speed / row["tokens_per_s"] - 1
    return {
        "tokens_per_s": round(speed, 3),
        "low": round(said["low"], 3),
        "high": round(said["high"], 3),
        "bottleneck": said["bottleneck"],
        "certainty": said["certainty"],
        "error": round(error, 4),
        "inside": said["low"] <= row["tokens_per_s"] <= said["high"],
        "seen": seen,
    }


def summary(rows: Sequence[Row]) -> dict[str, Row]:
    """Return for each kind of prediction the errors over the points it has not seen."""
    found = {}
    for kind in KINDS:
        given = [row["predicted"][kind] for row in rows]
        unseen = [each for each in given if not each["seen"]]
        errors = sorted(abs(each["error"]) for each in unseen)
        found[kind] = {
            "points": len(unseen),
            "median_error": statistics.median(errors),
            "largest_error": errors[-1],
            "inside": sum(each["inside"] for each in unseen),
        }
    return found


def to_markdown(document: dict[str, Any]) -> str:
    """Return the page of results."""
    machine, versions_ = document["machine"], document["versions"]
    bandwidth = (
        f"{threads} thread{'s' * (threads != '1')} {', '.join(f'{each:g}' for each in each_gb_s)}"
        for threads, each_gb_s in document["read_bandwidth_gb_s"].items()
    )
    lines = [
        "# Measured and predicted",
        "",
        f"{document['date']}, {machine['cpu']}, {machine['cores']} cores,"
        f" {machine['memory_gib']} GiB; {machine['os']}, Python {machine['python']}.",
        "",
        f"{', '.join(f'{name} {version}' for name, version in versions_.items())}.",
        "",
        f"Read bandwidth of `moeopt machine detect`, GB/s by round: {'; '.join(bandwidth)}.",
        "",
        "Medians of all repetitions; *: the calibration saw this point. Others: the largest share"
        " of the machine's CPU time that other programs took during a run.",
        "",
        "| width | threads | experts used | MB/token | others | measured tokens/s (range)"
        " | read, GB/s (of detected) | " + " | ".join(KINDS) + " |",
        "|---|---:|---:|---:|---:|---:|---:|" + "---:|" * len(KINDS),
    ]
    for row in document["rows"]:
        spread = f"{row['slowest']:.1f}-{row['fastest']:.1f}"
        cells = [
            row["width"],
            row["threads"],
            row["top_k"],
            f"{row['bytes_per_token'] / 1e6:.0f}",
            "-" if row["others"] is None else f"{row['others']:.0%}",
            f"{row['tokens_per_s']:.1f} ({spread})",
            f"{row['read_gb_s']:.1f} ({row['of_bandwidth']:.0%})",
            *(_cell(row["predicted"][kind]) for kind in KINDS),
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += [
        "",
        "| prediction | points not seen | median error | largest | inside the interval |",
        "|---|---:|---:|---:|---:|",
    ]
    for kind, found in summary(document["rows"]).items():
        errors = f"{found['median_error']:.1%} | {found['largest_error']:.1%}"
        lines.append(f"| {kind} | {found['points']} | {errors} | {found['inside']} |")
    return "\n".join([*lines, ""])


def _cell(predicted: Row) -> str:
    mark = "*" if predicted["seen"] else ""
    return f"{predicted['tokens_per_s']:.1f} ({predicted['error']:+.1%}){mark}"


def _moeopt(*arguments: str) -> str:
    command = [sys.executable, "-m", "moeopt", *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"moeopt {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def _load(path: Path) -> Any:
    return json.loads(path.read_text())
