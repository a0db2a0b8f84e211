"""Every option of every command is felt, or refused: none is taken in silence.

`TABLE` has a row for each option of each command: two calls that differ in that option alone, and
what must differ in what comes out of them. An option without a row fails here, so that a new one
needs a witness. `REFUSED` has places where an option would change nothing: there it is refused, in
one line that names it.
"""

import contextlib
import io
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import moeopt
from tests.conftest import ROOT
from tests.problems.deferral.random_schedules import random_instance as random_schedules
from tests.problems.layout.layout_random_instances import random_instance as random_layout
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import COMMANDS, build_app, run
from tests.rooms.sim import Trace, Workload, find, get_model, routing_trace
from tests.rooms.tri_domain import trimoe


class Row(NamedTuple):
    """Two calls that differ in an option, and what must differ in what comes out.

    `change` is added to the base, whose own words for these options it replaces; with ``=`` before
    it, it stands in place of the whole base. `part` is what of the output counts: ``text`` of
    stdout without times, what is ``said`` on stderr, the exit ``code``, the ``files`` that are
    written, the ``instance`` without name and provenance, or a field of what ``--json`` prints.
    ``range``: threads and processes change no result, so that a wrong number must be refused.
    `base` names one of the command's; the first one is the usual.
    """

    change: str
    part: str = "text"
    base: str = ""


# ------------------------------------------------------------------------------------ generate

LITE, LAW, TRACE, COUNTS = (
    "--model m.json",
    "--workload olmoe-1b-7b",
    "--trace t.npz",
    "--counts c.csv",
)
ON = f"--machine trimoe {LITE}"

BASES: dict[str, dict[str, str]] = {
    "generate tri_domain": {"law": f"{ON} {LAW} --batch 8", "trace": f"{ON} {TRACE} --batch 8"},
    "generate relayout": {
        "law": f"{ON} {LAW} --batch 8 --history 3",
        "trace": f"{ON} {TRACE} --batch 8 --history 3",
        "earlier": f"{ON} {LAW} --batch 8 --history 3 --layout-from 'earlier steps'",
        "two": f"{ON} {LAW} --batch 8 --history 3 --windows two",
    },
    "generate layout": {
        "law": f"{ON} {LAW} --batch 8",
        "trace": f"{ON} {TRACE} --batch 8",
        "several": f"{ON} {TRACE} --batch 8 --windows 3 --first-window 0",
        "later": f"{ON} {LAW} --batch 8 --out a.json --later-out b.json",
    },
    "generate deferral": {
        "law": f"{ON} {LAW} --batch 4",
        "trace": f"{ON} {TRACE} --batch 4",
        "one": ON,
    },
    "generate balance": {
        "law": f"--machine edge-gpu-ndp-4 {LITE} {LAW} --seq-len 8",
        "trace": f"--machine edge-gpu-ndp-4 {LITE} {TRACE} --seq-len 8",
        "prefill": f"--machine edge-gpu-ndp-4 {LITE} {LAW} --seq-len 8 --stage prefill",
    },
    "generate cache": {
        "law": f"{ON} {LAW} --tokens 6",
        "trace": f"{ON} {TRACE}",
        "m1": f"--machine rtx4090-7960x {LITE} {LAW} --tokens 6",
        "mixtral": "--machine rtx4090-7960x --model mixtral-8x7b --workload hdmoe-mixtral"
        " --tokens 2",
        "later": f"{ON} {LAW} --tokens 6 --out a.json --later-out b.json",
    },
    "generate bitwidth": {
        "law": f"{LITE} {LAW} --tokens 64",
        "trace": f"{LITE} {TRACE}",
        "plain": f"{LITE} --trace plain.npz",
        "none": f"{LITE} --weight none",
    },
    "generate placement": {
        "law": f"{ON} {LAW} --steps 4",
        "trace": f"{ON} {TRACE} --steps 4",
        "counts": f"{ON} {COUNTS} --where domain=a --steps 4",
        "later": f"{ON} {LAW} --steps 4 --out a.json --later-out b.json",
    },
    "generate joint": {
        "law": f"{ON} {LAW} --steps 4",
        "trace": f"{ON} {TRACE} --steps 4",
        "widths": f"{ON} {LAW} --steps 4 --bits 4,8",
        "later": f"{ON} {LAW} --steps 4 --out a.json --later-out b.json",
    },
    "generate replication": {
        "law": f"{LITE} {LAW} --batch 8",
        "trace": f"{LITE} {TRACE} --batch 8",
        "counts": f"{LITE} {COUNTS} --where domain=a",
        "eplb": f"{LITE} {LAW} --batch 8 --current eplb --windows 2",
        "kernel": f"{LITE} {LAW} --batch 8 --work kernel",
        "later": f"{LITE} {LAW} --batch 8 --out a.json --later-out b.json",
    },
    "generate split": {
        "gpus": f"--machine 2xrtx3090+epyc-7002 {LITE}",
        "nodes": f"--machine rtx4090+2xepyc-9004 {LITE}",
    },
    "generate threads": {
        "law": f"--machine ktransformers-a100 {LITE} {LAW} --batch 8",
        "trace": f"--machine ktransformers-a100 {LITE} {TRACE} --batch 8",
        "counts": f"--machine ktransformers-a100 {LITE} {COUNTS} --where domain=a",
    },
}
"""Command -> calls that rows start from, without the command's name."""

COMMON = {
    "--machine": Row("--machine mine.json", "instance"),
    "--model": Row("--model n.json", "instance"),
    "--workload": Row("--workload trimoe-skew", "instance"),
    "--trace": Row("=trace", "instance"),
    "--counts": Row("=counts", "instance"),
    "--where": Row("--where domain=b", "instance", "counts"),
    "--format": Row("--format torch", "code", "trace"),
    "--seed": Row("--seed 1", "instance"),
    "--quantum-ns": Row("--quantum-ns 70", "instance"),
    "--name": Row("--name mine", "name"),
    "--out": Row("--out x.json", "files"),
    "--json": Row("--json", "text", "out"),
    "--later-out": Row("--out a.json --later-out b.json", "files"),
    "--later": Row("--later 2", "files", "later"),
}
"""What all problems have."""

INSTANCE_ROWS = {
    "tri_domain": (
        "--batch 4; --layer 1; trace: --batching window; --dimms 8; --ndp-rate 0.01;"
        " --dimm-share 1/2; --channels 'two DIMMs each'; --gpu-base 'shared experts';"
        " --gpu-work 'two parts'; trace: --step 2; --residents 5; --cold-cut 'experts 0.7';"
        " cut: --dimm-choice 'in turn'; --layout-from 'last step'"
    ),
    "relayout": (
        "--batch 4; --layer 1; trace: --batching window; --dimms 8; --ndp-rate 0.01;"
        " --dimm-share 1/2; --channels 'two DIMMs each'; --gpu-base 'shared experts';"
        " --gpu-work 'two parts'; trace: --step 4; --residents 5; --cold-cut 'experts 0.7';"
        " cut: --dimm-choice 'in turn'; --layout-from 'last step'; --history 2;"
        " earlier: --layout-steps 2; --alpha 0.9; --loads actual; --hbm-free-slots 5;"
        " --windows two; two: --prefetches 3; --link-sum 'per link'; --link-move-us 50;"
        " --link-window-us 200"
    ),
    "layout": (
        "--batch 4; --layer 1; trace: --batching window; --dimms 8; --ndp-rate 0.01;"
        " --dimm-share 1/2; --channels 'two DIMMs each'; --gpu-base 'shared experts';"
        " --gpu-work 'two parts'; --windows 2; several: --spacing 2; trace: --first-window 1;"
        " --drawn-windows 9; --hbm-slots 4; --dimm-slots 3; --table-noise 0.1; --held-out 1;"
        " trace: --layout-from none"
    ),
    "deferral": (
        "--precision int4; --context 9000; --min-immediate 1; --layers 2; --variation 0.5;"
        " --penalty quadratic; --penalty-share 0.5; --batch 2"
    ),
    "balance": (
        "--stage prefill; --seq-len 10; --slices-per-unit 2; trace: --layer 1; --step 2;"
        " --residents 5; prefill: --activations single; --ndp-speedup 0.1;"
        " six: --whole-columns=False"
    ),
    "cache": (
        "--tokens 9; --first-token 3; --slots 5; --reserved-gib 20; mixtral: --threads 1;"
        " m1: --context 9000; --layers 2"
    ),
    "bitwidth": (
        "--average-bits 3; --budget model; --granularity layer; --bits 2,4,8; --min-count 4:3;"
        " --gpu-experts 3; --alpha 0.9; --losses alike; --loss-table loss.csv; --weight none;"
        " --scale table; --phase decode; --prior-choices 4; plain: --prefill-share 0.25;"
        " trace: --sequence 1; --layers 2; --tokens 9"
    ),
    "placement": (
        "--batch 4; trace: --batching window --batch 4; --steps 3; --first-step 1;"
        " trace: --first-sequence 0 --batching sequences;"
        " sequences: --prompt-share 0.3; first: --rules-know steps; --layers 2; --share 0.3;"
        " --gpu-slots 7; --context 9000; --reserved-gib 20; --bits 4; --cold-bits 4;"
        " cold: --hot-share 0.2; --restriction whole-layers; --fill; --host-gib 5;"
        " --host-copy=False; --dispatch free; cold: --own-times; --fixed-us 99; --gpu-us 30;"
        " us: --gpu-us-per-token 3; --offload-us 70; us: --offload-us-per-token 3"
    ),
    "joint": (
        "--batch 4; batch: --batching window; --steps 3; --first-step 1; --layers 2; --bits 4,8;"
        " --other-bits 8; --context 2000; --kv-bits 8; --kv-losses 5; --reserved-gib 20;"
        " --share 0.3; --host-gib 5; --host-copy=False; --max-ways 2; --max-deferred 2;"
        " --quality-loss 0.1; --deferral-price 1; widths: --losses alike;"
        " widths: --loss-table loss.csv; widths: --one-bit-loss 0.3"
    ),
    "replication": (
        "--batch 4; --layer 1; trace: --batching streams; --devices 40; --slots 5; --nodes 2;"
        " --groups 8; --split free; --max-copies 4; --windows 2; trace: --first-window 1;"
        " --drawn-windows 9; windows: --current eplb; eplb: --move-tokens 5; --work kernel;"
        " kernel: --kernel a100-int4; kernel: --slot-cost 9"
    ),
    "split": (
        "--bits Q4_K_M; --kv-bits 8; --context 2000; --room 60000; --ubatch 1024;"
        " --runtime ik_llama.cpp; nodes: --numa mirrored; --granularity tensor;"
        " --runtime-date 2025-03-01;"
        " --contiguous=False; --prompt-tokens 3000; --reply-tokens 5"
    ),
    "threads": (
        "--batch 4; --layer 1; trace: --batching streams; trace: --step 2; --matrices down;"
        " --grains 1,2; --threads 20; --pull-ns 7; --input-gb-s 60; --tile-rows 4096"
    ),
}
"""Problem -> a change for each of its own options, with the base before it, if another."""

BASES["generate placement"] |= {
    "sequences": f"{ON} --trace plain.npz --steps 4 --first-sequence 0 --batching sequences",
    "first": f"{ON} {TRACE} --steps 4 --first-step 8",
    "cold": f"{ON} {LAW} --steps 4 --bits 8 --cold-bits 4",
    "us": f"{ON} {LAW} --steps 4 --gpu-us 30 --offload-us 70",
}
BASES["generate joint"]["batch"] = f"{ON} {TRACE} --steps 4 --batch 4"
BASES["generate threads"]["step"] = (
    f"--machine ktransformers-a100 {LITE} {TRACE} --batch 8 --step 1"
)
BASES["generate replication"]["windows"] = f"{LITE} {LAW} --batch 8 --windows 2"


def option_of(change: str) -> str:
    """Return the option that a change is about: its first word."""
    return change.partition("=")[0].split()[0]


def rows_of(text: str, part: str) -> dict[str, Row]:
    """Return the rows of changes, each with its base before a colon, between semicolons."""
    found = {}
    for one in text.split(";"):
        base, colon, change = one.strip().partition(": ")
        if not colon:
            base, change = "", one.strip()
        found[option_of(change)] = Row(change, part, base)
    return found


TABLE: dict[str, dict[str, Row]] = {
    f"generate {problem}": COMMON | rows_of(text, "instance")
    for problem, text in INSTANCE_ROWS.items()
}
"""Command -> option -> its witness."""

for problem in INSTANCE_ROWS:
    if problem in ("tri_domain", "deferral", "balance", "split", "threads"):  # decided anew
        del TABLE[f"generate {problem}"]["--later-out"]
    if "later" not in BASES[f"generate {problem}"]:
        del TABLE[f"generate {problem}"]["--later"]
    bases = BASES[f"generate {problem}"]
    usual = next(iter(bases.values()))
    bases["out"] = f"{usual} --out x.json"
    bases["bare"] = usual.replace(f" {LAW}", "")
    if "counts" not in bases:  # they do not tell enough
        TABLE[f"generate {problem}"] |= {
            "--counts": Row("--counts d.csv", "refused", "bare"),
            "--where": Row("--where domain=a", "refused", "bare"),
        }
for problem in ("bitwidth", "replication"):  # which read nothing of a machine and have no times
    del TABLE[f"generate {problem}"]["--machine"]
    TABLE[f"generate {problem}"]["--quantum-ns"] = Row("--quantum-ns 70", "refused")
    TABLE[f"generate {problem}"]["--model"] = Row("--model wide.json", "instance")
TABLE["generate replication"]["--model"] = Row("--model wide.json", "instance", "kernel")
TABLE["generate balance"]["--quantum-ns"] = Row("--quantum-ns 20", "instance")
TABLE["generate balance"]["--machine"] = Row("--machine edge-gpu-ndp-6", "instance")
TABLE["generate threads"]["--machine"] = Row("--machine rtx4090-7960x", "instance")
TABLE["generate split"] |= {
    "--machine": Row("--machine 3xrtx3090+epyc-7002", "instance"),
    "--trace": Row("--trace t.npz", "refused"),
    "--workload": Row("--workload olmoe-1b-7b", "refused"),
    "--format": Row("--format topk-npz", "refused"),
    "--seed": Row("--seed 1", "refused"),
}

REFUSED: dict[str, str] = {
    "generate tri_domain": "step: --seed 1",
    "generate relayout": "step: --seed 1; law: --layout-steps 2; law: --prefetches 3",
    "generate layout": "first: --seed 1; law: --spacing 2; trace: --drawn-windows 9",
    "generate deferral": "one: --workload olmoe-1b-7b; one: --trace t.npz; one: --seed 1;"
    " trace: --seed 1",
    "generate balance": "prefill: --step 2; prefill: --residents 5",
    "generate cache": "trace: --seed 1; slots: --reserved-gib 20",
    "generate bitwidth": "trace: --tokens 9; trace: --prefill-share 0.25; plain: --alpha 0.9;"
    " none: --alpha 0.9; none: --phase decode; none: --prior-choices 4; none: --sequence 1;"
    " none: --prefill-share 0.25; table: --losses alike; table: --seed 1; law: --quantum-ns 7;"
    " law: --machine trimoe",
    "generate placement": "trace: --seed 1; law: --hot-share 0.2; law: --gpu-us-per-token 3;"
    " law: --offload-us-per-token 3; slots: --share 0.3; slots: --reserved-gib 20;"
    " slots: --context 9000; law: --own-times; law: --prompt-share 0.3; marked: --prompt-share 0.3",
    "generate joint": "trace: --seed 1; law: --losses alike; law: --one-bit-loss 0.3;"
    " share: --reserved-gib 20; table: --losses alike",
    "generate replication": "law: --kernel a100-int4; law: --slot-cost 9; law: --move-tokens 5;"
    " trace: --drawn-windows 9; counts: --seed 1; counts: --batch 4; counts: --batching streams;"
    " law: --quantum-ns 7; law: --machine trimoe",
    "generate split": "gpus: --numa mirrored; gpus: --seed 1",
    "generate threads": "step: --seed 1; counts: --seed 1; counts: --batch 4;"
    " counts: --batching streams; counts: --step 1",
}
"""Command -> changes of its bases which the option refuses, as it would not be felt there."""

BASES["generate balance"]["six"] = f"--machine edge-gpu-ndp-6 {LITE} {LAW} --seq-len 8"
for problem, more in (("tri_domain", ""), ("relayout", " --history 3")):
    cut = f"{ON} {LAW} --batch 8 --cold-cut 'experts 0.9'{more}"
    BASES[f"generate {problem}"]["cut"] = cut
BASES["generate tri_domain"]["step"] = f"{ON} {TRACE} --batch 8 --step 2"
BASES["generate relayout"]["step"] = f"{ON} {TRACE} --batch 8 --history 3 --step 4"
BASES["generate layout"]["first"] = f"{ON} {TRACE} --batch 8 --first-window 1"
BASES["generate cache"]["slots"] = f"{ON} {LAW} --tokens 6 --slots 5"
BASES["generate bitwidth"]["table"] = f"{LITE} {TRACE} --loss-table loss.csv --bits 2,4"
BASES["generate placement"] |= {
    "slots": f"{ON} {LAW} --steps 4 --gpu-slots 9",
    "marked": f"{ON} {TRACE} --steps 4 --first-sequence 0 --batching sequences",
}
BASES["generate joint"] |= {
    "share": f"{ON} {LAW} --steps 4 --share 0.3",
    "table": f"{ON} {LAW} --steps 4 --bits 4,8 --loss-table loss.csv",
}

# ------------------------------------------------------------------------------------ the others


PREDICT = "--machine rtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M --json"
TWO = "--machine 2xrtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M --json"
NODES = "--machine rtx4090+2xepyc-9004 --model glm-4.5-air --bits Q4_K_M --json"
ALONE = "--machine epyc-7002 --model qwen3-30b-a3b --bits Q4_K_M --json"
SMALL = f"--machine small.json {LITE} --steps 4 --work-limit 1 --joint-time 0 --json"
RANKS = f"{LITE} {COUNTS} --where domain=a --ep-size 8 --redundant-experts 8 --work-limit 1 --json"
LIBRARY = ROOT / "instances"
OPEN = "layout/own-esft/own-intent-layer17-batch128.json"
PROVEN = "balance/decode/decode-deepseek-moe-16b-edge-gpu-ndp-4-slices1.json"

BASES |= {
    "solve": {
        "one": "i.json",
        "json": "i.json --json",
        "milp": "i.json --method milp --engine cbc --json",
        "drawn": f"{LIBRARY / OPEN} --method cp-sat --work-limit 0.1 --json",
    },
    "check": {"one": "i.json s.json"},
    "explain": {"one": "i.json", "milp": "i.json --json"},
    "gantt": {"one": "i.json s.json"},
    "pareto": {"one": "deferred.json"},
    "gap": {
        "one": "i.json --methods greedy",
        "store": "i.json --methods greedy --store done.db",
        "facts": "g.json --methods greedy --markdown",
        "proven": f"{LIBRARY / PROVEN} --methods exact --json",
    },
    "sensitivity": {
        "one": "i.json --methods greedy",
        "store": "i.json --methods greedy --store done.db",
    },
    "report": {"one": "done.db --out r", "json": "done.db --out r"},
    "warm": {"one": "--jobs 1"},
    "holdout": {
        "one": "l.json k.json --unchecked --methods trimoe-layout --work-limit 0.2",
        "json": "l.json k.json --unchecked --methods trimoe-layout --work-limit 0.2 --json",
    },
    "trace info": {"one": "t.npz", "counts": "c.csv --where domain=a"},
    "trace convert": {"one": "t.npz --out u.npz"},
    "trace dedupe": {"one": "twice.npz --out u.npz"},
    "machine detect": {"one": "--no-measure --set cpu.tflops=1 --set dram.gb_s=40 --out d.json"},
    "machine show": {"one": "trimoe"},
    "machine set": {"one": "mine.json gpu.capacity_gib=9"},
    "machine read": {"one": "lscpu.txt", "out": "lscpu.txt --machine rtx4090+epyc-9004"},
    "machine fields": {"one": ""},
    "model show": {"one": "m.json"},
    "calibrate": {
        "one": "--machine rtx4090+ryzen-am5 --points points.csv --out k.json",
        "bare": "--machine rtx4090+ryzen-am5 --points bare.csv --model mixtral-8x7b --bits Q4_K_M"
        " --out k.json",
        "sweep": "--machine rtx4090+ryzen-am5 --points sweep.txt --model mixtral-8x7b"
        " --bits Q4_K_M --n-cpu-moe 20 --out k.json",
    },
    "profile": {
        "one": f"--machine trimoe {LITE} --tokens 1,2 --repeats 1 --warm-up 0 --out q.json"
    },
    "predict": {
        "one": PREDICT,
        "prompt": f"{PREDICT} --prompt 4096",
        "two": TWO,
        "two prompt": f"{TWO} --prompt 512",
        "nodes": f"{NODES} --prompt 512",
        "flags": f"{PREDICT} --prompt 512 --flags '-ngl 99 --n-cpu-moe 40'",
        "alone": f"{ALONE} --prompt 4096",
        "plan": f"--machine trimoe {LITE} --plan plan.json --json",
        "page": PREDICT.replace(" --json", ""),
    },
    "plan": {
        "one": SMALL + f" {LAW}",
        "trace": f"{SMALL} {TRACE}",
        "twice": f"{SMALL} --trace twice.npz",
        "counts": f"{SMALL} {COUNTS} --where domain=a",
        "layers": PREDICT,
        "two": TWO,
        "prompt": f"{TWO} --prompt-tokens 3000",
        "nodes": NODES,
        "tensor": "--machine 3xrtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M --json",
        "widths": f"{SMALL} {LAW} --average-bits 3 --bits 2,4",
        "timed": f"{SMALL} {LAW}".replace("--work-limit 1", "--time-limit 20"),
        "joint": f"{SMALL} {LAW}".replace("--joint-time 0", "--joint-time 20"),
        "front": f"{SMALL} {LAW} --pareto --points 2",
        "ranks": RANKS,
        "groups": f"{RANKS} --nodes 2 --groups 16",
    },
    "export": {
        "lp": "i.json --to lp",
        "kt": "placed.json --to ktransformers --instance p.json --model m.json --out k.pt",
        "llama": "split.json --to llama.cpp --instance sp.json --json",
        "sglang": "copies.json --to sglang --instance r.json --json",
        "sglang placed": "placed.json --to sglang --instance p.json --model m.json --json",
    },
    "simulate": {
        "law": f"{ON} {LAW} --layers 2 --steps 3 --batch 8 --json",
        "trace": f"{ON} {TRACE} --layers 2 --steps 3 --batch 8 --json",
        "solution": "--instance i.json --solution s.json --json",
        "deep": f"{ON} {LAW} --layers 2 --steps 3 --batch 8 --depth 4000 --json",
    },
    "compare": {
        "law": f"{ON} {LAW} --layers 2 --batch 4 --prompt 4 --output 4"
        " --systems trimoe,klotski,ktransformers --exact none --json",
        "trace": f"{ON} {TRACE} --layers 2 --batch 4 --prompt 4 --output 4"
        " --systems trimoe,klotski,ktransformers --exact none --json",
    },
    "certificate make": {"one": "i.json --out c.json"},
    "certificate check": {"one": "i.json c.cert"},
    "certificate model": {"one": "i.json --out m2.json"},
    "list": {"one": "methods", "library": f"instances --path {LIBRARY}"},
}

TABLE |= {
    "solve": {
        "INSTANCES": Row("=j.json"),
        "--time-limit": Row("--time-limit 0.000001", "code"),
        "--work-limit": Row("--work-limit 0.000001", "code"),
        "--seed": Row("--seed 7", "solution", "drawn"),
        "--workers": Row("--workers 2 --work-limit 1", "code"),
        "--method": Row("--method greedy"),
        "--engine": Row("--engine highs", "raw_status", "milp"),
        "--verify": Row("--no-verify", "raw_status", "milp"),
        "--out": Row("--out x.json", "files"),
        "--json": Row("--json"),
    },
    "check": {
        "INSTANCE": Row("=j.json s.json", "code"),
        "SOLUTION": Row("=i.json o.json"),
        "--out": Row("--out x.json", "refused"),
        "--json": Row("--json"),
    },
    "explain": {
        "INSTANCE": Row("=j.json"),
        "--solution": Row("--solution s.json"),
        "--method": Row("--method lp", "refused"),
        "--time-limit": Row("--time-limit 0.000001", "code"),
        "--work-limit": Row("--work-limit 0.000001", "code"),
        "--seed": Row("--seed=-1", "refused"),
        "--workers": Row("--workers 2 --work-limit 1", "code"),
        "--json": Row("--json"),
    },
    "gantt": {
        "INSTANCE": Row("=j.json s.json", "code"),
        "SOLUTIONS": Row("=i.json s.json o.json"),
        "--out": Row("--out x.svg", "files"),
        "--json": Row("--json"),
    },
    "pareto": {
        "INSTANCE": Row("=deferred2.json"),
        "--tolerance": Row("--tolerance 0"),
        "--time-limit": Row("--time-limit 0.000001", "code"),
        "--work-limit": Row("--work-limit 0.000001", "code"),
        "--out": Row("--out x.svg", "files"),
        "--json": Row("--json"),
    },
    "gap": {
        "PATHS": Row("=j.json --methods greedy"),
        "--methods": Row("--methods trimoe"),
        "--time-limit": Row("--time-limit 0.000001"),
        "--work-limit": Row("--work-limit 0.000001"),
        "--seed": Row("--seed 0,1 --instances --csv x.csv", "files"),
        "--workers": Row("--workers 2 --work-limit 1", "code"),
        "--with": Row("--with rule.py:rule"),
        "--jobs": Row("--jobs 0", "refused"),
        "--executor": Row("--executor nowhere", "refused"),
        "--resume": Row("--resume", "code", "store"),
        "--prove-again": Row("--prove-again", "text", "proven"),
        "--store": Row("--store x.db", "files"),
        "--report": Row("--report r", "files"),
        "--csv": Row("--csv x.csv", "files"),
        "--parquet": Row("--parquet x.parquet", "files"),
        "--by": Row("--by batch", "text", "facts"),
        "--markdown": Row("--markdown"),
        "--instances": Row("--instances"),
        "--held-out": Row("--held-out"),
        "--json": Row("--json"),
    },
    "sensitivity": {
        "PATHS": Row("=j.json --methods greedy"),
        "--time-limit": Row("--time-limit 0.000001"),
        "--work-limit": Row("--work-limit 0.000001"),
        "--methods": Row("--methods trimoe"),
        "--points": Row("--points 2"),
        "--traces": Row("--traces nowhere", "refused"),
        "--store": Row("--store x.db", "files"),
        "--resume": Row("--resume", "code"),
        "--jobs": Row("--jobs 0", "refused"),
        "--report": Row("--report r", "files"),
        "--csv": Row("--csv x.csv", "files"),
        "--markdown": Row("--markdown"),
        "--json": Row("--json"),
    },
    "report": {
        "STORE": Row("=more.db --out r", "files"),
        "--out": Row("--out q", "files"),
        "--json": Row("--json"),
    },
    "warm": {"--jobs": Row("--jobs 0", "refused"), "--json": Row("--json --jobs 1")},
    "holdout": {
        "OBSERVED": Row("=k.json k.json --unchecked --methods trimoe-layout --work-limit 0.2"),
        "LATER": Row("=l.json l.json --unchecked --methods trimoe-layout --work-limit 0.2"),
        "--methods": Row("--methods lpt"),
        "--with": Row("--with rule.py:rule"),
        "--schedule": Row("--schedule exact"),
        "--sample-rule": Row("--sample-rule local-search"),
        "--time-limit": Row("--time-limit=-1", "code"),
        "--reference-limit": Row("--reference-limit=-1", "code"),
        "--work-limit": Row("--work-limit=-1", "code"),
        "--seed": Row("--seed=-1", "refused"),
        "--check": Row("=l.json k.json --methods trimoe-layout --work-limit 0.2", "code"),
        "--json": Row("--json"),
    },
    "trace info": {
        "FILE": Row("=plain.npz"),
        "--layer": Row("--layer 1"),
        "--batch": Row("--batch 8"),
        "--experts": Row("--experts 80"),
        "--where": Row("--where domain=b", "text", "counts"),
        "--format": Row("--format sglang-pt", "code"),
        "--json": Row("--json"),
    },
    "trace convert": {
        "SOURCE": Row("=plain.npz --out u.npz", "files"),
        "--out": Row("--out v.npz", "files"),
        "--format": Row("--format sglang-pt", "code"),
        "--top-k": Row("--top-k 3", "refused"),
        "--json": Row("--json"),
    },
    "trace dedupe": {
        "FILE": Row("=t.npz --out u.npz"),
        "--out": Row("--out v.npz", "files"),
        "--min-run": Row("--min-run 30"),
        "--json": Row("--json"),
    },
    "machine detect": {
        "--out": Row("--out e.json", "files"),
        "--measure": Row("=--out d.json"),
        "--set": Row("--set cpu.tflops=1 --set dram.gb_s=30"),
        "--json": Row("--json"),
    },
    "machine show": {"MACHINE": Row("=mine.json"), "--json": Row("--json")},
    "machine set": {
        "MACHINE": Row("=small.json gpu.capacity_gib=9", "files"),
        "FIELDS": Row("=mine.json gpu.capacity_gib=8", "files"),
        "--out": Row("--out x.json", "files"),
        "--source": Row("--source 'a page'", "files"),
        "--json": Row("--json"),
    },
    "machine read": {
        "FILES": Row("=meminfo.txt"),
        "--machine": Row("--machine rtx4090+epyc-9004"),
        "--out": Row("--out x.json", "files", "out"),
        "--json": Row("--json"),
    },
    "machine fields": {},
    "model show": {"MODEL": Row("=n.json"), "--json": Row("--json")},
    "calibrate": {
        "--machine": Row("--machine rtx3090+epyc-7002"),
        "--points": Row("--points other.csv"),
        "--out": Row("--out x.json", "files"),
        "--model": Row("--model qwen3-30b-a3b", "text", "bare"),
        "--bits": Row("--bits Q8_0", "text", "bare"),
        "--runtime": Row("--runtime llama.cpp", "text", "sweep"),
        "--n-cpu-moe": Row("--n-cpu-moe 10", "text", "sweep"),
        "--triad": Row("--triad 30", "files"),
        "--json": Row("--json"),
    },
    "profile": {
        "--machine": Row("--machine mine.json", "files"),
        "--model": Row("--model n.json", "files"),
        "--out": Row("--out x.json", "files"),
        "--device": Row("--device tpu", "refused"),
        "--threads": Row("--threads 0", "refused"),
        "--tokens": Row("--tokens 1,4", "files"),
        "--repeats": Row("--repeats 0", "refused"),
        "--warm-up": Row("--warm-up=-1", "refused"),
        "--json": Row("--json"),
    },
    "predict": {
        "--machine": Row("--machine rtx4090+epyc-9004", "tokens_per_s"),
        "--model": Row("--model qwen3-235b-a22b", "tokens_per_s"),
        "--bits": Row("--bits Q3_K_M", "tokens_per_s"),
        "--runtime": Row("--runtime ik_llama.cpp", "tokens_per_s"),
        "--n-cpu-moe": Row("--n-cpu-moe 40", "tokens_per_s"),
        "--gpu-experts": Row("--gpu-experts 4", "tokens_per_s"),
        "--context": Row("--context 16k", "memory_mib"),
        "--depth": Row("--depth 16k", "tokens_per_s"),
        "--threads": Row("--threads 4", "tokens_per_s"),
        "--kv-bits": Row("--kv-bits q8_0", "gpu_gib"),
        "--prompt": Row("--prompt 512", "prompt_tokens_per_s", "prompt"),
        "--ubatch": Row("--ubatch 64", "prompt_tokens_per_s", "prompt"),
        "--gpus": Row("--gpus 2", "tokens_per_s"),
        "--runtime-date": Row("--runtime-date 2025-03-01", "tokens_per_s"),
        "--measured": Row("--measured 5", "explained"),
        "--plan": Row("--plan other.plan.json", "tokens_per_s", "plan"),
        "--counts": Row("--counts d.csv", "tokens_per_s", "plan"),
        "--flags": Row("--flags '-ngl 99 --n-cpu-moe 40'", "tokens_per_s"),
        "--json": Row("=page"),
    },
    "plan": {
        "--machine": Row("--machine mine.json", "plan"),
        "--model": Row("--model n.json", "plan"),
        "--trace": Row("=trace", "plan"),
        "--counts": Row("=counts", "plan"),
        "--where": Row("--where domain=b", "plan", "counts"),
        "--workload": Row("--workload trimoe-skew", "plan"),
        "--batch": Row("--batch 2", "plan"),
        "--context": Row("--context 4k", "gpu_memory_bytes"),
        "--depth": Row("--depth 16k", "plan"),
        "--steps": Row("--steps 3", "comparisons"),
        "--decide-steps": Row("--decide-steps 3", "comparisons"),
        "--hold-out-steps": Row("--hold-out-steps 3", "comparisons"),
        "--held-out": Row("--held-out 0.5", "comparisons", "trace"),
        "--keep-repeats": Row("--keep-repeats", "removed_tokens", "twice"),
        "--reserved-gib": Row("--reserved-gib 1", "gpu_slots"),
        "--host-reserved-gib": Row("--host-reserved-gib 9", "host_memory_bytes"),
        "--max-deferred": Row("--max-deferred 2 --runtime ktransformers", "max_deferred"),
        "--average-bits": Row("--average-bits 3", "bits"),
        "--bits": Row("--bits 8", "bits"),
        "--other-bits": Row("--other-bits 8", "gpu_memory_bytes"),
        "--kv-bits": Row("--kv-bits 8", "gpu_memory_bytes"),
        "--loss-table": Row("--loss-table loss.csv", "losses", "widths"),
        "--runtime": Row("--runtime ktransformers", "expect"),
        "--quality-loss": Row("--quality-loss 0.1 --bits 2,4,8", "bits", "joint"),
        "--joint-time": Row("--joint-time 20", "joint"),
        "--time-limit": Row("--time-limit 0.00001", "decisions", "timed"),
        "--work-limit": Row("--work-limit 0.0000001", "decisions"),
        "--workers": Row("--workers 2", "code"),
        "--seed": Row("--seed 3", "plan"),
        "--prompt-tokens": Row("--prompt-tokens 512", "prompt_tokens_per_s", "prompt"),
        "--reply-tokens": Row("--reply-tokens 5", "tokens_per_s", "prompt"),
        "--ubatch": Row("--ubatch 2048", "tokens_per_s", "two"),
        "--numa": Row("--numa mirrored", "tokens_per_s", "nodes"),
        "--granularity": Row("--granularity tensor", "tokens_per_s", "two"),
        "--backend": Row("--backend ROCm", "command", "tensor"),
        "--path": Row("--path x.gguf", "command", "two"),
        "--ep-size": Row("--ep-size 4", "tokens_on_fullest_rank", "ranks"),
        "--redundant-experts": Row("--redundant-experts 16", "tokens_on_fullest_rank", "ranks"),
        "--nodes": Row("--nodes 2", "tokens_on_fullest_rank", "ranks"),
        "--groups": Row("--groups 4", "tokens_on_fullest_rank", "groups"),
        "--to": Row("--to sglang --out x.json", "files", "ranks"),
        "--out": Row("--out x.json", "files", "two"),
        "--export": Row("--export e", "files"),
        "--pareto": Row("--pareto --points 2"),
        "--points": Row("--points 3", "fronts", "front"),
        "--picture": Row("--picture x.svg", "files", "front"),
        "--json": Row("=page"),
    },
    "export": {
        "SOLUTION|INSTANCE": Row("=j.json --to lp"),
        "--to": Row("--to mps"),
        "--time-limit": Row("=p.json --to ktransformers --time-limit 0.000001", "code"),
        "--work-limit": Row("=p.json --to ktransformers --work-limit 0.000001", "code"),
        "--instance": Row("--instance i.json", "code", "kt"),
        "--model": Row("--model mixtral-8x7b", "code", "kt"),
        "--out": Row("--out x.lp", "files"),
        "--context": Row("--context 9000", "text", "kt"),
        "--ubatch": Row("--ubatch 1024", "text", "llama"),
        "--threads": Row("--threads 5", "text", "llama"),
        "--sockets": Row("--sockets 2", "text", "kt"),
        "--deferral": Row("--deferral deferral.json", "text", "kt"),
        "--ep-size": Row("--ep-size 2", "content", "sglang placed"),
        "--redundant-experts": Row("--redundant-experts 64", "refused", "sglang placed"),
        "--onto": Row("--onto nowhere.json", "code", "sglang"),
        "--model-class": Row("--model-class NoneSuch", "said", "sglang"),
        "--cache-type": Row("--cache-type q8_0", "text", "llama"),
        "--backend": Row("--backend ROCm", "text", "llama"),
        "--json": Row("--json"),
    },
    "simulate": {
        "--steps": Row("--steps 2", "steps"),
        "--layers": Row("--layers 1"),
        "--batch": Row("--batch 2"),
        "--attention-ns": Row("--attention-ns 99000"),
        "--other-ns": Row("--other-ns 99000"),
        "--runtime": Row("--runtime ktransformers"),
        "--quantum-ns": Row("--quantum-ns 700"),
        "--machine": Row("--machine mine.json"),
        "--model": Row("--model n.json"),
        "--bits": Row("--bits 4"),
        "--trace": Row("=trace"),
        "--batching": Row("--batching window", base="trace"),
        "--workload": Row("--workload trimoe-skew"),
        "--plan": Row("--plan short.plan.json"),
        "--policy": Row("--policy cpu-for-misses --plan plan.json", "code"),
        "--depth": Row("--depth 4000"),
        "--kv-bits": Row("--kv-bits q8_0", "text", "deep"),
        "--seed": Row("--seed 3"),
        "--instance": Row("--instance j.json", "code", "solution"),
        "--solution": Row("--solution o.json", "measured", "solution"),
        "--chrome": Row("--chrome x.json", "files"),
        "--json": Row("=" + f"{ON} {LAW} --layers 2 --steps 3 --batch 8"),
    },
    "compare": {
        "--machine": Row("--machine mine.json"),
        "--model": Row("--model n.json"),
        "--bits": Row("--bits 4"),
        "--trace": Row("=trace"),
        "--workload": Row("--workload trimoe-skew"),
        "--batch": Row("--batch 2"),
        "--prompt": Row("--prompt 9"),
        "--output": Row("--output 9"),
        "--steps": Row("--steps 2"),
        "--layers": Row("--layers 1"),
        "--batching": Row("--batching window", "text", "trace"),
        "--systems": Row("--systems klotski"),
        "--gpu-expert-gib": Row("--gpu-expert-gib 0.5"),
        "--kv-cache": Row("--kv-cache host"),
        "--ubatch": Row("--ubatch 2"),
        "--exact": Row("--exact sample"),
        "--seed": Row("--seed 3"),
        "--plot": Row("--plot x.svg", "files"),
        "--json": Row(
            f"={ON} {LAW} --layers 2 --batch 4 --prompt 4 --output 4"
            " --systems trimoe,klotski,ktransformers --exact none"
        ),
    },
    "certificate make": {
        "INSTANCE": Row("=j.json --out c.json"),
        "--out": Row("--out x.json", "files"),
        "--time-limit": Row("--time-limit=-1", "refused"),
        "--nodes": Row("--nodes 0", "refused"),
        "--json": Row("--json"),
    },
    "certificate check": {
        "INSTANCE": Row("=j.json c.cert", "code"),
        "CERTIFICATE": Row("=i.json other.cert", "code"),
        "--json": Row("--json"),
    },
    "certificate model": {
        "INSTANCE": Row("=j.json --out m2.json", "files"),
        "--out": Row("--out x.json", "files"),
        "--for": Row("--for c.cert", "files"),
        "--json": Row("--json"),
    },
    "list": {
        "KIND": Row("=problems"),
        "--path": Row("--path nowhere", "code", "library"),
        "--json": Row("--json"),
    },
}

ALSO: dict[str, tuple[Row, ...]] = {
    "predict": (
        Row("--prompt 4096", "prompt_tokens_per_s", "two prompt"),
        Row("--prompt 4096", "prompt_tokens_per_s", "flags"),
        Row("--prompt 4096", "prompt_tokens_per_s", "nodes"),
        Row("--ubatch 16", "prompt_tokens_per_s", "alone"),
        Row("--ubatch 64", "prompt_tokens_per_s", "two prompt"),
        Row("--kv-bits q8_0", "command", "two"),
        Row("--gpus 3", "tokens_per_s", "two"),
    ),
    "plan": (
        Row("--numa first-touch", "said", "nodes"),
        Row("--numa nodes", "said", "nodes"),
        Row("--numa mirrored", "said", "nodes"),
        Row("--numa isolate", "command", "nodes"),
    ),
}
"""Command -> further places where options must be felt: they were not once."""

BASES["plan"]["page"] = BASES["plan"]["one"].replace(" --json", "")
REFUSED |= {
    "gap": "json: --by batch; json: --markdown; json: --instances; json: --held-out; one: --resume",
    "sensitivity": "points: --markdown; points: --report r; one: --resume",
    "predict": "alone: --n-cpu-moe 40; one: --counts d.csv",
    "plan": "layers: --seed 3; layers: --workers 2; layers: --joint-time 1; layers: --time-limit 9;"
    " layers: --work-limit 9; layers: --numa mirrored; one: --ubatch 2048; two: --seed 3;"
    " two: --workers 2; two: --joint-time 1; two: --batch 2; two: --workload olmoe-1b-7b;"
    " two: --numa mirrored; one: --points 3; one: --picture x.svg; one: --prompt-tokens 9;"
    " one: --backend ROCm; one: --path x.gguf",
    "simulate": "solution: --steps 3; solution: --policy cpu-for-misses",
    "compare": "trace: --seed 3; law: --prompt 0 --ubatch 9",
    "solve": "one: --engine cbc",
    "check": "one: --out x.json",
}
BASES["gap"]["json"] = "i.json --methods greedy --json"
BASES["sensitivity"]["points"] = "i.json --methods greedy --points 2"

# ------------------------------------------------------------------------------------ the test


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the files that the calls read."""
    folder = tmp_path_factory.mktemp("prepared")
    with contextlib.chdir(folder):
        _prepare()
    return folder


def _prepare() -> None:
    """Write a model of four layers, its traces and counts, instances and solutions, and more."""
    lite = get_model("deepseek-v2-lite").model_copy(update={"layers": 4})
    shapes = {"m": lite, "n": lite.model_copy(update={"hidden_size": 1024})}
    shapes["wide"] = lite.model_copy(
        update={"routed_experts": 72, "expert_intermediate_size": 2816}
    )
    for name, shape in shapes.items():
        Path(f"{name}.json").write_text(shape.model_dump_json(exclude_none=True))
    law = find("workloads", Workload, "olmoe-1b-7b")
    drawn = routing_trace(law, 64, 6, 3, 96, 3)
    lengths, decode = np.array([24] * 4), np.tile(np.arange(24) >= 12, 4)
    moeopt.save_trace(
        Trace("t", drawn.topk_ids, drawn.topk_weights, lengths, None, decode), "t.npz"
    )
    moeopt.save_trace(Trace("plain", drawn.topk_ids, None, lengths), "plain.npz")
    rng = np.random.default_rng(1)
    pairs = [(layer, expert) for layer in range(3) for expert in range(64)]
    rows = ["layer,expert,count,domain"]
    rows += [f"{a},{b},{rng.integers(1, 50)},{domain}" for domain in "ab" for a, b in pairs]
    Path("c.csv").write_text("\n".join(rows))
    alone = [row.rpartition(",")[0] for row in rows if not row.endswith(",b")]
    Path("d.csv").write_text("\n".join(alone))
    rows = ["layer,expert,bits,loss"]
    rows += [f"{a},{b},{w},{rng.random() * 2.0**-w:.6f}" for a, b in pairs for w in (1, 2, 3, 4, 8)]
    Path("loss.csv").write_text("\n".join(rows))
    changes = {
        **{"dram.measured_gb_s": 40, "gpu.capacity_gib": 12},
        **{"ndp.tflops": 0.01, "pcie.gb_s": 8},
    }
    moeopt.save(moeopt.set_machine(moeopt.get_machine("trimoe"), changes), "mine.json")
    write("i.json", i := random_instance(4, experts=7))
    write("j.json", random_instance(5, experts=6))
    write("s.json", trimoe(i))
    write("o.json", moeopt.solve(i).solution)
    write("l.json", random_layout(3, experts=5))
    write("k.json", random_layout(4, experts=5))
    write("deferred.json", random_schedules(3, layers=4))
    write("deferred2.json", random_schedules(4, layers=4))
    Path("rule.py").write_text(
        "def rule(instance):\n    import moeopt\n"
        "    return moeopt.solve(instance, method='trimoe').solution\n"
    )
    write(
        "small.json",
        moeopt.set_machine(moeopt.get_machine("rtx4090-7960x"), {"gpu.capacity_gib": 4.5}),
    )
    law = {"model": "m.json", "machine": "trimoe", "workload": "olmoe-1b-7b"}
    write("g.json", moeopt.generate("tri_domain", batch=8, **law))
    write("p.json", placement := moeopt.generate("placement", steps=4, share=0.3, **law))
    write("placed.json", moeopt.solve(placement, method="frequency").solution)
    write("r.json", copies := moeopt.generate("replication", batch=8, slots=10, devices=8, **law))
    write("copies.json", moeopt.solve(copies, method="eplb").solution)
    on_three = {"machine": "3xrtx3090+epyc-7002", "model": "glm-4.5-air", "bits": "Q4_K_M"}
    write("sp.json", split := moeopt.generate("split", **on_three))
    write("split.json", moeopt.solve(split, method="labels").solution)
    write("immediate.json", step := moeopt.generate("deferral", **law | {"workload": None}))
    write("deferral.json", moeopt.solve(step).solution)
    rows = tuple(tuple(range(0, 64, 2)) for _ in range(3))
    write("plan.json", moeopt.Plan(resident=rows))
    write("short.plan.json", moeopt.Plan(resident=rows[:2]))
    write("other.plan.json", moeopt.Plan(resident=(*rows[:1], (), ())))
    again = np.concatenate([drawn.topk_ids[:48], drawn.topk_ids[:25], drawn.topk_ids[48:]])
    moeopt.save_trace(Trace("twice", again), "twice.npz")
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert run(shlex.split("gap i.json --methods greedy --store done.db")) == 0
        assert run(shlex.split("gap j.json --methods greedy --store more.db")) == 0
        assert run(shlex.split("certificate make i.json --out c.cert")) == 0
        assert run(shlex.split("certificate make j.json --out other.cert")) == 0
    Path("lscpu.txt").write_text(LSCPU)
    Path("meminfo.txt").write_text("MemTotal:       65536000 kB\n")
    head, point = (
        "model,bits,runtime,n_cpu_moe,context,tokens_per_s",
        "mixtral-8x7b,Q4_K_M,llama.cpp",
    )
    Path("points.csv").write_text(f"{head}\n{point},24,64,10.5\n{point},28,64,8.5\n")
    Path("other.csv").write_text(f"{head}\n{point},24,64,12.5\n{point},28,64,9.5\n")
    Path("bare.csv").write_text(
        "runtime,n_cpu_moe,context,tokens_per_s\nllama.cpp,24,64,10.5\nllama.cpp,28,64,8.5\n"
    )
    Path("sweep.txt").write_text(SWEEP)


def write(name: str, value: Any) -> None:
    """Write an object's file."""
    moeopt.save(value, name)


LSCPU = """Architecture:            x86_64
CPU(s):                  64
Model name:              AMD EPYC 9334 32-Core Processor
Thread(s) per core:      2
Core(s) per socket:      32
Socket(s):               1
"""

SWEEP = """|    PP |     TG |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |
|-------|--------|--------|----------|----------|----------|----------|
|   512 |    128 |      0 |    2.000 |   256.00 |   10.000 |    12.80 |
|   512 |    128 |    512 |    2.000 |   256.00 |   10.500 |    12.19 |
"""


class Outcome(NamedTuple):
    """What comes out of a call."""

    code: int
    out: str
    err: str
    files: dict[str, bytes]
    words: str


class Calls:
    """Runs command lines, each once, in a fresh copy of the folder."""

    def __init__(self, prepared: Path, scratch: Path) -> None:
        self._prepared, self._scratch = prepared, scratch
        self._known: dict[str, Outcome] = {}
        self._again: dict[str, Outcome] = {}

    def __call__(self, words: str) -> Outcome:
        """Return what comes out of a command line."""
        if words not in self._known:
            self._known[words] = self._run(words)
        return self._known[words]

    def anew(self, words: str) -> Outcome:
        """Return what comes out of a command line that is run a second time."""
        if words not in self._again:
            self._again[words] = self._run(words)
        return self._again[words]

    def _run(self, words: str) -> Outcome:
        folder = self._scratch / "here"
        shutil.copytree(self._prepared, folder)
        before = {path: path.read_bytes() for path in _files(folder)}
        out, err = io.StringIO(), io.StringIO()
        printed = contextlib.redirect_stdout(out), contextlib.redirect_stderr(err)
        with contextlib.chdir(folder), printed[0], printed[1]:
            code = run(shlex.split(words))
        after = {path: path.read_bytes() for path in _files(folder)}
        shutil.rmtree(folder)
        new = {str(p.relative_to(folder)): b for p, b in after.items() if before.get(p) != b}
        return Outcome(code, out.getvalue(), err.getvalue(), new, words)


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


@pytest.fixture(scope="module")
def call(prepared: Path, tmp_path_factory: pytest.TempPathFactory) -> Calls:
    """Return what runs command lines; those that rows share run once."""
    return Calls(prepared, tmp_path_factory.mktemp("calls"))


TIMES = re.compile(
    r"""\d+\.\d+(?=( s\b| MB| ms))|[\u2500-\u257f]+|\d+\.\d+(?=[ \u2500-\u257f]*$)"""
    r"""|"(seconds|build_s|solve_s|compile_s)": [\d.e-]+""",
    re.MULTILINE,
)
"""What the clock decides, and the lines of tables, which are as long as it makes them."""


def seen(part: str, found: Outcome) -> Any:
    """Return the part of an outcome that a row is about."""
    if part in ("text", "said"):
        return TIMES.sub("", found.out if part == "text" else found.err)
    if part in ("code", "files"):
        return found.code if part == "code" else found.files
    assert found.code == 0, found.err
    pretty = found.out.startswith("{\n")
    data = json.loads(found.out if pretty else found.out.splitlines()[-1])
    if part == "instance":
        return {name: data[name] for name in data.keys() - {"name", "provenance"}}
    return data[part]


def with_change(command: str, base: str, change: str) -> str:
    """Return a command line with a change of a base: options are replaced, or others added."""
    if change.startswith("="):
        return f"{command} {change[1:]}"
    words, left = shlex.split(change), shlex.split(base)
    for flag in (word for word in words if word.startswith("--")):
        if flag in left:
            at = left.index(flag)
            del left[at : at + 2]
    return shlex.join([*command.split(), *left, *words])


def base_of(command: str, name: str) -> str:
    """Return a base by its name, by default the first one."""
    bases = BASES[command]
    return bases[name] if name else next(iter(bases.values()))


def declared() -> Iterator[tuple[str, str]]:
    """Yield every command with each of its options, as the command line declares them."""
    whole = build_app()
    for command in COMMANDS:
        app = whole
        for word in command.name.split():
            app = app[word]
        inner = (
            [one for one in app if not one.startswith("-")] if command.name == "generate" else []
        )
        for name, one in [(f"{command.name} {i}", app[i]) for i in inner] or [(command.name, app)]:
            for argument in one.assemble_argument_collection():
                yield name, argument.name


def test_every_option_has_a_witness() -> None:
    """The table has each declared option once, and no other."""
    assert sorted(declared()) == sorted((name, one) for name, row in TABLE.items() for one in row)


SLOW = {
    *(("machine detect", "--measure"), ("plan", "--granularity")),
    *(("warm", "--jobs"), ("warm", "--json")),
}
"""Rows of many seconds."""

EACH = [(command, option) for command, rows in TABLE.items() for option in rows]


def marked(rows: Sequence[tuple[object, ...]], step: int) -> list[object]:
    """Return rows of which each `step`-th is run by default, and none of `SLOW`."""
    return [
        pytest.param(*row, marks=[pytest.mark.slow] if number % step or row in SLOW else [])
        for number, row in enumerate(rows)
    ]


@pytest.mark.parametrize(("command", "option"), marked(EACH, 16), ids=str)
def test_it_is_felt(command: str, option: str, call: Calls) -> None:
    """What the row names differs between the two calls; or the second one is refused."""
    if command == "profile":
        pytest.importorskip("torch")
    if command == "warm":
        call("warm")  # what it compiles of a cold cache it says only once
    assert_felt(command, option, TABLE[command][option], call)


PLACES = [(command, row) for command, rows in ALSO.items() for row in rows]


@pytest.mark.parametrize(("command", "row"), marked(PLACES, 3), ids=str)
def test_it_is_felt_here_too(command: str, row: Row, call: Calls) -> None:
    """With several GPUs or nodes, by flags, on a CPU alone."""
    assert_felt(command, option_of(row.change), row, call)


def assert_felt(command: str, option: str, row: Row, call: Calls) -> None:
    """Assert that what a row names differs between its two calls, or that the second is refused."""
    base = base_of(command, row.base)
    change = (
        f"={base_of(command, row.change[1:])}" if row.change[1:] in BASES[command] else row.change
    )
    before, words = call(f"{command} {base}".strip()), with_change(command, base, change)
    after = call(words)
    if row.part == "refused":
        assert_refused(after, option, words)
        return
    assert before.code in (0, 2) if row.part == "code" else before.code == 0, before.err
    assert row.part == "code" or after.code != 2, f"{words}: {after.err}"
    if row.part in ("text", "said"):  # or the clock alone could make the difference
        again = seen(row.part, call.anew(before.words))
        assert again == seen(row.part, before), f"not the same twice: {before.words}"
    assert seen(row.part, before) != seen(row.part, after), words


def assert_refused(found: Outcome, option: str, words: str) -> None:
    """Assert one line on stderr that names the option, exit code 2, and nothing else."""
    assert (found.code, found.out, found.files) == (2, "", {}), words
    [line] = found.err.splitlines()
    bare = option.strip("-")
    assert any(name in line for name in (option, bare, bare.replace("-", "_"))), line


NOWHERE = [
    (command, *one.strip().split(": ", 1))
    for command, all_ in REFUSED.items()
    for one in all_.split(";")
]


@pytest.mark.parametrize(("command", "base", "change"), marked(NOWHERE, 5), ids=str)
def test_it_is_refused_where_it_would_not_be_felt(
    command: str, base: str, change: str, call: Calls
) -> None:
    """In one line, where the call without it is none that is refused for it."""
    words = base_of(command, base)
    assert call(f"{command} {words}").code == 0
    whole = with_change(command, words, change)
    assert_refused(call(whole), option_of(change), whole)
