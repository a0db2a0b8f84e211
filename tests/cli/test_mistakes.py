"""Typical mistakes over all commands: exit 2, one line, and the line says what would be right."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

import moeopt
from tests.problems.tri_domain.random_instances import random_instance
from tests.rooms.cli import run

ON = "--machine rtx4090+ryzen-am5 --model glm-4.5-air"
DECODE = "simulate --machine trimoe --model deepseek-v2"

TWO_GPUS = "plan --machine 2xrtx3090+epyc-7002 --model glm-4.5-air --bits Q4_K_M"
ONE_GPU = "plan --machine rtx4090+ryzen-am5 --model mixtral-8x7b --bits Q4_K_M"


MISTAKES = {
    f"{TWO_GPUS} --trace t.npz": "--trace: needs one GPU and one node; 2xrtx3090+epyc-7002",
    f"{TWO_GPUS} --reserved-gib 3": "--reserved-gib: needs one GPU and one node",
    f"{TWO_GPUS} --pareto": "--pareto: needs one GPU and one node",
    f"{ONE_GPU} --backend ROCm": "--backend: needs several GPUs or nodes",
    f"{ONE_GPU} --loss-table l.json": "loss_table: needs average_bits",
    f"{ONE_GPU} --points 3": "--points: needs --pareto",
    # names
    "slove a.json": "slove: is not a command of moeopt; did you mean solve?",
    "frobnicate": "frobnicate: is not a command of moeopt (moeopt --help)",
    "solve a.json --method treshold": "did you mean threshold?",
    "solve a.json --method klotsky": "did you mean klotski?",
    "solve a.json --method bound-and-pack": "unknown for tri_domain; known: auto, greedy",
    "solve a.json --methods trimoe": "is not an option of moeopt solve; did you mean --method?",
    "solve a.json --method milp --engine higs": "did you mean highs?",
    "solve a.json --method trimoe[tie_order=npu]": "must be one of cpu, gpu, ndp",
    "solve a.json --method trimoe[tie_ordr=gpu]": "did you mean tie_order?",
    "solve a.json --method rule.py": "rule.py:FUNCTION",
    "solve a.json --method rule.py:slowest": "there are: fastest",
    "solve a.json --method broken.py:fastest": "'(' was never closed (broken.py, line 1)",
    "gap a.json --methods heuristic": "heuristics, published, exact for several",
    "gap a.json --methods trimo": "did you mean trimoe",
    "explain a.json --method cpsat": "did you mean cp-sat?",
    "list machine": "did you mean machines?",
    "generate tridomain": "not a command of moeopt generate; did you mean tri_domain?",
    "export a.json --to llamacpp": "did you mean llama.cpp",
    "export a.json --to sglang": "for tri_domain there are: lp, mps",
    f"{DECODE} --workload olmo": "did you mean olmoe-1b-7b?",
    "simulate --machine trimo --model deepseek-v2 --workload olmoe-1b-7b": "mean trimoe?",
    "simulate --machine trimoe --model deepseekv2 --workload olmoe-1b-7b": "mean deepseek-v2?",
    f"{DECODE} --workload olmoe-1b-7b --runtime vllm": "must be one of ik_llama.cpp, ktrans",
    "plan --machine rtx4009+ryzen-am5 --model glm-4.5-air": "did you mean rtx4090",
    "plan --machine rtx4090+rizen-am5 --model glm-4.5-air": "did you mean ryzen-am5",
    "plan --machine rtx4090+ryzen-am5 --model GLM-4.5-Ar": "did you mean glm-4.5-air?",
    "plan --machine rtx4090 --model glm-4.5-air": "name the host, too, as in rtx4090+",
    f"plan {ON} --bits Q4_KM": "like it: Q4_K_M",
    f"plan {ON} --runtime lama.cpp": "did you mean llama.cpp",
    f"predict {ON} --runtime ollama": "did you mean llama.cpp",
    f"predict {ON} --flags '--n-cpu-mo 3'": "did you mean --n-cpu-moe?",
    "profile --machine trimoe --model deepseek-v2 --out x.json --device cuda": "cpu or gpu",
    "machine show trimo": "did you mean trimoe?",
    "machine set trimoe dram.capacity=5 --out m.json": "did you mean dram.capacity_gib",
    "machine set trimoe nothing --out m.json": "as in dram.capacity_gib=256",
    "generate tri_domain --machine trimo --model deepseek-v2": "did you mean trimoe?",
    "generate cache --contxt 3": "did you mean --context",
    "generate joint --machine trimoe --model deepseek-v2 --losses x": "--losses: must be one of",
    "list instances --path nowhere": "it is not an instance library",
    "machine show rtx4909+ryzen-am5": "rtx4090",
    "plan --machne x": "--machne: is not an option of moeopt plan; did you mean --machine?",
    f"{DECODE} --workload trimoe-skew --policy trimo": "trimoe",
    "holdout a.json b.json --schedule exct": "must be exact, trimoe, both",
    "trace convert axes.npz --out x.npz --format topk": "did you mean topk-npz",
    # units and numbers
    "solve a.json --time-limit 5m": "--time-limit: must be a number, not '5m'",
    "solve a.json --time-limit 0": "must be a positive number of seconds",
    "solve a.json --seed x": "--seed: must be a whole number, not 'x'",
    "solve a.json --seed -1": "seed: must be from 0 to",
    "solve a.json --workers 0": "workers: must be from 1 to 1024",
    "gap a.json --seed 1,x": "--seed: must be numbers, separated by commas",
    "gap a.json --jobs 0": "jobs: must be from 1 to 1024",
    "gap a.json --time-limit 1,2s": "--time-limit: must be numbers, separated by commas",
    "pareto a.json --tolerance 5%": "--tolerance: must be a number, not '5%'",
    f"{DECODE} --workload olmoe-1b-7b --steps 0": "steps: must be at least 1",
    f"{DECODE} --workload olmoe-1b-7b --batch 0": "batch: must be at least 1",
    f"plan {ON} --context 8kb": "must be tokens, e.g. 8192 or 8k",
    f"plan {ON} --kv-bits q8": "must be a width or one of f32, f16, q8_0",
    f"plan {ON} --batch 0": "batch: must be at least 1",
    f"plan {ON} --reserved-gib 24XB": "e.g. 24 or 512MiB",
    f"predict {ON} --n-cpu-moe -1": "n_cpu_moe: must be from 0 to",
    f"predict {ON} --gpus 0": "gpus: must be from 1 to 64",
    f"predict {ON} --prompt -5": "prompt: must be from 1 to",
    f"predict {ON} --bits 0": "must be from 0.5 to 64",
    f"predict {ON} --bits x": "bits: ",
    f"predict {ON} --kv-bits 99": "kv_bits: must be from 0.5 to 64, not 99",
    f"predict {ON} --context 99999999999": "context: must be from 0 to 16777216",
    f"predict {ON} --context 8q": "must be tokens",
    f"{DECODE} --workload olmoe-1b-7b --layers 99": "layers: deepseek-v2: layers with experts: 59",
    f"{DECODE} --workload olmoe-1b-7b --seed -1": "seed: must be at least 0, not -1",
    "profile --machine trimoe --model deepseek-v2 --out x.json --tokens 1,a": "whole numbers",
    "warm --jobs 0": "jobs: must be from 1 to 1024",
    "machine set trimoe dram.capacity_gib=98304 --out m.json": "at most 65536",
    "machine set trimoe gpu.capacity_gib=24576 --out m.json": "must be at most 4096",
    "machine set trimoe gpu.hbm_gb=24 --out m.json": "is called gpu.capacity_gib by now",
    "machine set trimoe dram.capacity_gib=-1 --out m.json": "must be more than 0",
    "machine set trimoe dram.capacity_gib=much --out m.json": "e.g. 24 or 512MiB",
    "solve negative.json": "experts[0].gpu_ns: must be at least 0, not -5",
    "solve fraction.json": "experts[0].gpu_ns: must be an integer, not 0.5",
    "solve unit.json": "experts[0].gpu_ms: is not a known key; did you mean gpu_ns?",
    # missing files and arguments
    "solve": "INSTANCES: is missing: Instance files (moeopt solve --help)",
    "solve a.jsn": "did you mean a.json",
    "solve elsewhere.json": "elsewhere.json: cannot be read: No such file or directory",
    "plan --machine 32xh100+xeon-spr --model deepseek-v3": "`--ep-size` needs no machine",
    "library table": "library: is now `python -m instances.tools`",
    "gap a.json --figures f": "--figures: is now `moeopt.gap(...).plot()`",
    "solve a.json --method rules.py": "is a file; name its function, too: rules.py:FUNCTION",
    "solve nowhere/a.json": "there is no folder nowhere",
    "plan --machine 32xh100 --model deepseek-v3": "as in 16xh100+xeon-spr; for more, `--ep-size`",
    "predict --machine 'Mac Studio' --model deepseek-v3": "a Mac is one of m1, m1-max",
    "export a.json --to vllm": "vLLM itself reads no map of experts",
    "solve folder": "is a folder; name a file in it",
    "solve a.json --out nowhere/x/s.json": "nowhere/x is not a folder",
    "solve a.json b.json --out s2.json": "must be a folder for several instances",
    "check a.json": "SOLUTION: is missing",
    "check a.json missing.json": "missing.json: cannot be read: No such file",
    "gap folder": "holds no instance files (*.json, *.json.gz)",
    "report missing.sqlite --out r": "there is no such store",
    "report": "STORE: is missing: A campaign's store",
    "holdout a.json": "LATER: is missing",
    "gantt a.json s.json --out x.jpg": "must be one of .svg, .png, .pdf",
    "export a.json": "--to: is missing: Target: see `moeopt list targets`",
    "export a.json --to lp --out nowhere/x.lp": "nowhere is not a folder",
    "plan --model deepseek-v2": "--machine: is missing: Preset, GPU+HOST",
    f"plan {ON} --counts count.csv": "did you mean counts.csv",
    f"{DECODE} --trace axe.npz": "did you mean axes.npz",
    "simulate": "--machine, --model: are missing",
    "certificate check a.json": "CERTIFICATE: is missing",
    "certificate make a.json": "--out: is missing: The certificate",
    f"predict {ON} --plan none.json": "none.json: cannot be read: No such file",
    "calibrate --machine trimoe --points none.csv --out m.json": "none.csv: cannot be read: No",
    "calibrate --machine trimoe --points none.csv --out no/such/m.json": "there is no folder",
    "calibrate --machine trimoe --points none.csv": "--out: is missing",
    # the wrong kind of file, or axes
    "solve empty.json": "is empty, not JSON",
    "export a.json --to mps --out model.lp": "must end in .mps",
    "solve notes.txt": "not valid JSON at line 1 column 1",
    "solve cut.json": "not valid JSON at line 1 column 25",
    "solve list.json": "must hold one JSON object, not a list",
    "solve typo.json": "did you mean tri_domain?",
    "solve nothing.json": "problem: is missing: must be one of tri_domain",
    "solve axes.npz": "moeopt trace info",
    "solve s.json": "is a solution of",
    "check s.json a.json": "is a solution of",
    "check a.json b.json": "is an instance, not a solution",
    "check b.json s.json": "the solution is for 'mixed-4', not for 'mixed-5'",
    "explain a.json --solution b.json": "is an instance, not a solution",
    "gap a.json --store notes.txt": "not a store of moeopt",
    "gap a.json --report notes.txt": "is a file: must be a folder",
    "report a.json --out r": "not a store of moeopt",
    f"plan {ON} --counts bad.csv": 'header: is "a,b"; known: layer,expert,count',
    f"predict {ON} --plan a.json": "problem: is not a known key",
    "plan --machine rtx4090+ryzen-am5 --model model.json": "routed_experts: is missing",
    "calibrate --machine rtx4090+ryzen-am5 --points bad.csv --out m.json": "columns: model, bits",
    "generate bitwidth --model mixtral-8x7b --loss-table bad.csv"
    " --weight none": "must be layer,expert,bits,loss",
    "trace info a.json": "not a trace",
    "trace info nokey.npz": "an array of int64 of shape (3, 4, 2), all of it zeros",
    "trace info float.npz": "must be integers [token, layer, k], not float64",
    "trace info axes.npy": "an array of int64 of shape (4, 300, 2), all of it zeros",
    "trace info turned.npz": "3 tokens in 300 layers: the axes are [token, layer, k]",
    f"{DECODE} --trace axes.npz": "2 per token in a top-6 model",
    "certificate check a.json b.json": "b.json: must be a certificate",
    "certificate model a.json --for b.json --out m.json": "b.json: must be a certificate",
    # options that are impossible, or contradict each other
    "solve a.json --engine highs --method trimoe": "can be used with method 'milp' only",
    "gap a.json --resume": "--resume: needs --store",
    "gap a.json --settlements --by batch": "--settlements: is now `moeopt sensitivity`",
    "gap a.json --points 3": "--points: is now `moeopt sensitivity --points`",
    "gap a.json --traces t": "--traces: is now `moeopt sensitivity --traces`",
    "list settlements": "is now `moeopt list assumptions`",
    "gap a.json --json --by batch": "--by: cannot be combined with --json",
    "gap a.json --json --markdown": "--markdown: cannot be combined with --json",
    "plan --machine 2xrtx3090+epyc-7003 --model glm-4.5-air --seed 3": "--seed: has no effect on",
    "plan --machine rtx4090+ryzen-am5 --model glm-4.5-air --workers 2": "--workers: has no effect",
    "sensitivity": "PATHS: is missing: Instance files or folders",
    "sensitivity a.json --points 0": "points: must be at least 1",
    "sensitivity a.json --points 3 --markdown": "--markdown: cannot be combined with --points",
    "sensitivity a.json --by batch": "--by: is not an option of moeopt sensitivity",
    "solve a.json --seed": "--seed: needs a value",
    "solve a.json --seed 1.5": "--seed: must be a whole number, not '1.5'",
    "certificate make a.json --out c.json --nodes 0": "--nodes: must be >= 1",
    "check a.json s.json b.json": "b.json: is one argument too many",
    "gap a.json --executor dsk://x:1": "must be dask://HOST:PORT",
    "report notes.txt": "--out: is missing: Folder for index.html and gap.csv",
    "pareto a.json": "one objective decides",
    "simulate --instance a.json --solution s.json --bits 4": "--bits: not with --instance and",
    "simulate --instance a.json": "--instance, --solution: must be given together",
    f"plan {ON} --held-out 0.2": "held_out: needs a trace",
    f"plan {ON} --numa nodes": "--numa: needs several GPUs or nodes",
    f"predict {ON} --n-cpu-moe 3 --gpu-experts 4": "give one of them, not several",
    f"predict {ON} --counts counts.csv": "--counts: needs --plan",
    DECODE: "--trace, --workload: one of the two is missing",
    f"{DECODE} --workload olmoe-1b-7b --plan p --policy x": "--plan, --policy: at most one",
    "simulate --instance i --solution s --plan p": "--plan: not with --instance",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with what people have lying about."""
    folder = tmp_path_factory.mktemp("mistakes")
    instance = random_instance(4, experts=5)
    moeopt.save(instance, folder / "a.json")
    moeopt.save(random_instance(5, experts=4), folder / "b.json")
    solution = moeopt.solve(instance, "trimoe").solution
    assert solution is not None
    moeopt.save(solution, folder / "s.json")
    for name, changed in {
        "negative": {"gpu_ns": -5},
        "fraction": {"gpu_ns": 0.5},
        "unit": {"gpu_ms": 1},
    }.items():
        data = json.loads((folder / "a.json").read_text())
        if "gpu_ms" in changed:
            del data["experts"][0]["gpu_ns"]
        data["experts"][0] |= changed
        (folder / f"{name}.json").write_text(json.dumps(data))
    np.save(folder / "axes.npy", np.zeros((4, 300, 2), int))
    np.savez(folder / "axes.npz", topk_ids=np.tile([0, 1], (3, 30, 1)))
    np.savez(folder / "turned.npz", topk_ids=np.tile([0, 1], (3, 300, 1)))
    np.savez(folder / "float.npz", topk_ids=np.zeros((3, 4, 2)))
    np.savez(folder / "nokey.npz", ids=np.zeros((3, 4, 2), int))
    (folder / "folder").mkdir()
    for name, text in {
        "notes.txt": "hello\n",
        "empty.json": "",
        "cut.json": '{"problem": "tri_domain"',
        "list.json": "[]",
        "typo.json": '{"problem": "tridomain"}',
        "nothing.json": "{}",
        "counts.csv": "layer,expert,count\n0,0,5\n",
        "bad.csv": "a,b\n1,2\n",
        "model.json": '{"name": "x", "layers": 4}',
        "rule.py": "def fastest(instance):\n    return None\n",
        "broken.py": "def fastest(instance:\n",
    }.items():
        (folder / name).write_text(text)
    return folder


@pytest.mark.parametrize(("line", "right"), MISTAKES.items(), ids=MISTAKES)
def test_a_mistake_is_one_line_that_says_what_would_be_right(
    line: str,
    right: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing on stdout, no traceback, nothing written."""
    monkeypatch.chdir(folder)
    before = sorted(path.name for path in folder.iterdir() if path.suffix != ".pyc")
    assert run(shlex.split(line)) == 2
    captured = capsys.readouterr()
    [said] = captured.err.splitlines()
    assert said.startswith("moeopt: error: ")
    assert right in said
    assert len(said) <= 700
    assert captured.out == ""
    assert sorted(path.name for path in folder.iterdir() if path.suffix != ".pyc") == before


def test_a_fact_that_no_solve_has_loses_no_solve(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Which facts there are is known once all are solved: their table is printed undivided."""
    monkeypatch.chdir(folder)
    assert run(["gap", "a.json", "--methods", "trimoe", "--by", "botleneck"]) == 2
    captured = capsys.readouterr()
    assert "did you mean bottleneck?" in captured.err
    assert "trimoe" in captured.out
    assert "1 instance, all proven, 1 independent sample; excess" in captured.out
