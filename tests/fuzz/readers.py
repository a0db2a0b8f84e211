"""Every reader of files from strangers, with a small valid file to begin from."""

import base64
import gzip
import hashlib
import io
import json
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

import moeopt
from benchmarks.traces.formats import read_published
from instances.tools.entries import open_table, problem_table, short_table, stem
from instances.tools.submissions import certificate_faults, certified, submitted
from moeopt import ContradictionError, InputError, StoreError, get_machine
from tests.gguf_files import F32, header, write_gguf
from tests.interop.torch_files import saved
from tests.rooms.certificates import certificate
from tests.rooms.exporters import read_answer, read_copies, read_sol
from tests.rooms.problems import PROBLEMS, get_problem
from tests.rooms.sim import (
    Workload,
    conclude,
    decoded,
    facts_of,
    find,
    get_model,
    load_loss_table,
)
from tests.rooms.study import Libraries, Store, assume, read_campaign, unpacked_solution

ROOT = Path(__file__).parents[2]

REFUSALS = (InputError, StoreError, certificate.RefusedError)
"""What a reader may raise, whatever the file holds."""


@dataclass(frozen=True)
class Reader:
    """A reader: the name of the file that it gets, a valid content, and the call.

    `memory_mib` is what a small file may take beyond what the process has already.
    """

    file: str
    seed: Callable[[], bytes]
    read: Callable[[Path], Any]
    memory_mib: int = 100


def _json(data: Any) -> bytes:
    return json.dumps(data).encode()


def _npz() -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, topk_ids=np.array([[[0, 1]], [[1, 3]], [[2, 3]]], dtype=np.int16))
    return stream.getvalue()


def _npy() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([[0, 1, 2], [1, 3, 0]], dtype=np.int32))
    return stream.getvalue()


def _array(array: Any, name: str | None = None) -> bytes:
    stream = io.BytesIO()
    if name is None:
        np.save(stream, np.array(array))
    else:
        np.savez_compressed(stream, **{name: np.array(array)})
    return stream.getvalue()


def _answer() -> bytes:
    stream = io.BytesIO()
    np.save(stream, np.array([[[0, 1]], [[1, 3]]], dtype=np.int16))
    text = base64.b64encode(stream.getvalue()).decode()
    return _json({"choices": [{"index": 0, "routed_experts": text}]})


def _instance(problem: str) -> bytes:
    """Return the smallest instance of a problem's library."""
    folder = ROOT / "instances" / problem
    files = [*folder.glob("*/*.json"), *folder.glob("*/*.json.gz")]
    smallest = min((f for f in files if "solutions" not in f.parts), key=lambda f: f.stat().st_size)
    raw = smallest.read_bytes()
    return gzip.decompress(raw) if smallest.suffix == ".gz" else raw


def _solution() -> bytes:
    solutions = (ROOT / "instances/tri_domain/solutions").glob("*/*.json")
    return min(solutions, key=lambda file: file.stat().st_size).read_bytes()


def _tri_domain() -> moeopt.tri_domain.Instance:
    return moeopt.tri_domain.Instance.from_arrays(
        gpu_ns=[30, 40, 20], cpu_ns=[50, 20, 60], ndp_ns=[-1, 30, 25], dimm=[-1, 0, 1], dimms=2
    )


@cache
def _store() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        moeopt.gap([_tri_domain()], methods=["trimoe"], store=Path(folder, "s.db"))
        return Path(folder, "s.db").read_bytes()


def _read_store(path: Path) -> Any:
    with Store(path, create=False) as store:
        try:
            solves = store.frame()
        except ContradictionError as error:  # numbers that contradict each other: exit code 5
            raise InputError(str(error)) from None
        solutions = [unpacked_solution(r.problem, r.solution) for r in store.records()]
        instances = [store.instance(o.instance_hash) for o in store.members()]
        return solves, solutions, instances, store.traits()


@cache
def _model_file() -> bytes:
    from tests.rooms.certificates import neutral_model

    return _json(neutral_model(_tri_domain()).data)


def _read_model(path: Path) -> Any:
    return certificate.Model(certificate.read(path))


def _best() -> bytes:
    entry = {"objective": 50, "bound": 50, "status": "optimal", "method": "threshold"}
    return _json({"i.json": entry | {"solution": "solutions/i.json"}})


def _certificate() -> bytes:
    """Return a certificate of a bound of an instance of the library."""
    return min((ROOT / "instances/replication/certificates").glob("*/*"), key=_size).read_bytes()


def _size(path: Path) -> tuple[int, str]:
    return path.stat().st_size, path.name


def _library() -> bytes:
    """Return the entry of the instance that `_certificate` is about, alone."""
    name = json.loads(gzip.decompress(_certificate()))["instance"]
    best = json.loads((ROOT / "instances/replication/best_known.json").read_bytes())
    return _json({key: entry for key, entry in best.items() if stem(key) == name})


def _copied_library(folder: Path, best: bytes) -> Path:
    """Return a library with those files of replication that an entry needs."""
    library, own = folder / "library", ROOT / "instances/replication"
    place = library / "replication"
    if not place.exists():
        [(key, entry)] = json.loads(_library()).items()
        for file in (key, entry["solution"], entry["certificate"]):
            (place / file).parent.mkdir(parents=True, exist_ok=True)
            (place / file).write_bytes((own / file).read_bytes())
        index = json.loads((own / "index.json").read_bytes())
        (place / "index.json").write_bytes(_json({key: index[key]}))
    (place / "best_known.json").write_bytes(best)
    return library


def _read_certificate(path: Path) -> Any:
    return certified(_copied_library(path.parent, _library()), path)


def _submission() -> bytes:
    [entry] = json.loads(_library()).values()
    raw = (ROOT / "instances/replication" / entry["solution"]).read_bytes()
    return gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw


def _read_submission(path: Path) -> Any:
    return submitted(_copied_library(path.parent, _library()), path)


def _read_library(path: Path) -> Any:
    """Print the tables of a library with this ``best_known.json``, and verify its certificates."""
    library = _copied_library(path.parent, path.read_bytes())
    folder = library / "replication"
    tables = short_table(library, None), problem_table(folder), open_table(library)
    return tables, certificate_faults(folder)


def _losses_npz() -> bytes:
    stream = io.BytesIO()
    np.savez(stream, bits=np.array([2, 3]), loss=np.array([[[5.0, 2.0], [4.0, 1.0]]]))
    return stream.getvalue()


def _routed_npz() -> bytes:
    stream = io.BytesIO()
    ids = np.array([[[0, 1]], [[1, 3]], [[2, 3]]], dtype=np.int16)
    np.savez_compressed(stream, routed_experts=ids, prompt_token_ids=np.array([5, 6]))
    return stream.getvalue()


def _imatrix() -> bytes:
    kind = {"general.type": "imatrix", "imatrix.chunk_count": 3, "imatrix.datasets": ["w.txt"]}
    name = "blk.0.ffn_{}_exps.weight.counts"
    tensors = {name.format(part): ((1, 4), F32) for part in ("gate", "up", "down")}
    data = {name: np.array([5.0, 0.0, 3.0, 1.0]) for name in tensors}
    with tempfile.TemporaryDirectory() as folder:
        return write_gguf(Path(folder, "i.gguf"), kind, tensors, data).read_bytes()


def _highs() -> bytes:
    built = get_problem("tri_domain").Model("milp")(_tri_domain())
    built.post()
    rows = "".join(f"{name} 1\n" for name in built.model.names)
    head = f"Model status\nOptimal\n\nFeasible\nObjective 5\n# Columns {rows.count(chr(10))}\n"
    return f"{head}{rows}# Rows 1\nC1 1\n".encode()


def _read_answer(path: Path) -> Any:
    return read_answer(_tri_domain(), path)


def _read_provenance(path: Path) -> Any:
    """Make an instance again under other assumptions and another batch."""
    instance = moeopt.load(path)
    for assumption, value in (("cold_cut", "experts 0.5"), ("dimms", "4"), ("batch", "8")):
        assume(instance, assumption, value, path.parent)
    return instance


def _read_best(path: Path) -> Any:
    """Look an instance up in a library that consists of it alone."""
    instance, file = _tri_domain(), path.with_name("i.json")
    if not file.exists():
        moeopt.save(instance, file)
        path.with_name("solutions").mkdir()
        solution = moeopt.solve(instance).solution
        moeopt.save(solution, path.with_name("solutions") / "i.json")
        digest = hashlib.sha256(file.read_bytes()).hexdigest()
        path.with_name("index.json").write_bytes(_json({"i.json": {"sha256": digest}}))
    return Libraries().known(file, instance)


def _read_bench(path: Path) -> Any:
    return moeopt.read_measurements(path, model="qwen3-30b-a3b")


def _recording() -> bytes:
    record = {
        "forward_pass_id": 0, "rank": 0, "forward_mode": 2,
        "topk_ids_of_layer": np.array([[[0, 2], [1, 2]]], dtype=np.int32),
    }  # fmt: skip
    data = {"records": [record], "last_physical_to_logical_map": np.array([[2, 0, 1]])}
    with tempfile.TemporaryDirectory() as folder:
        return saved(Path(folder, "t.pt"), data).read_bytes()


_GGUF = {
    "general.architecture": "qwen3moe", "qwen3moe.block_count": 2, "qwen3moe.expert_count": 4,
    "qwen3moe.expert_used_count": 2, "qwen3moe.embedding_length": 32,
    "qwen3moe.expert_feed_forward_length": 32, "qwen3moe.attention.head_count": 4,
    "qwen3moe.attention.head_count_kv": 2,
}  # fmt: skip

_CONFIG = {
    "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "hidden_size": 64,
    "moe_intermediate_size": 32, "num_hidden_layers": 2, "num_experts": 8,
    "num_experts_per_tok": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
    "torch_dtype": "bfloat16", "vocab_size": 100, "intermediate_size": 128,
}  # fmt: skip

_ROUTES = b"".join(
    b'{"type": "route", "req_id": 0, "token_idx": %d, "layer": 0, "topk_ids": [%d, 3]}\n' % (n, n)
    for n in range(3)
)

_BATCHES = b'{"layer": 0, "batch_id": 0, "topk_experts": [[0, 1], [1, 3]]}\n'

_SGLANG = {"physical_to_logical_map": [[0, 1, 2, 3, 0, 1]]}

_CAMPAIGN = b"""campaign = "two"
instances = ["instances/tri_domain/*.json"]
methods = ["trimoe"]
time_limits_s = [1]
seeds = [0, 1]
"""

_SOL = b"# Objective value = 5\nx[0] 1\nx[1] 0\nC 5\n"

_SCIP = b"""solution status: optimal solution found
objective value:      5
objective_constant     1 \t(obj:0)
"""

_CBC = b"""Optimal - objective value 5.00000000
      0 objective_constant    1    0
"""

_POINTS = b"""model,bits,runtime,n_cpu_moe,context,tokens_per_s
mixtral-8x7b,Q4_K_M,llama.cpp,16,0,27.5
mixtral-8x7b,Q4_K_M,llama.cpp,32,512,14.1
"""

_LOSSES = b"layer,expert,bits,loss\n0,0,2,5\n0,0,3,2\n0,1,2,4\n0,1,3,1\n"

_PLAN = {
    "schema_version": 1, "resident": [[0, 1], [2]], "layout": [[None, 0, 1], [0, None, None]],
    "policy": "cpu-for-misses", "cache_ways": [1, 2], "deferred": [1, 0], "bits": [[4, 8, 3], 4],
    "assignments": [{"step": 0, "layer": 1, "gpu": [0], "cpu": [1], "ndp": [2]}],
    "migrations": [{"layer": 1, "expert": 2, "kind": "localize", "dimm": 0}],
    "window": "given", "pcie_window_ns": 5, "times": {"attention_ns": [7, 8], "step_ns": 9},
}  # fmt: skip

_PASTED = ROOT / "tests/sim/data/pasted"


def _read_speeds(path: Path) -> object:
    return moeopt.read_measurements(path, model="qwen3-30b-a3b", n_cpu_moe=48)


def _read_pasted(path: Path) -> object:
    """Read what a tool printed as `moeopt machine read --out` does."""
    found = conclude(facts_of([(str(path), decoded(path.read_bytes(), str(path)))]))
    return found.described() or found


_BENCH = ROOT / "tests/sim/data/llama_bench/threads_prompt_depth.json"


def _expert_shape() -> bytes:
    names = [f"blk.{n}.ffn_{part}_exps.weight" for n in (0, 1) for part in ("gate", "up", "down")]
    return header(_GGUF, dict.fromkeys(names, ((32, 32, 4), F32)))


_LOADS = [[10, 1, 5, 2], [2, 8, 1, 3]]

_RESTARTED = b"".join(
    b'{"type": "route", "req_id": 0, "token_idx": %d, "layer": 0, "topk_ids": [%d, 3]}\n' % (n, n)
    for n in (0, 1, 2, 0, 0)
)

READERS: dict[str, Reader] = {
    "trace-array-npy": Reader(
        "t.npy", partial(_array, [[[0, 1]], [[1, -1]], [[2, 3]]]), moeopt.load_trace
    ),
    "trace-array-npz": Reader(
        "t.npz", partial(_array, [[[0, 1]], [[1, 3]]], "indices"), moeopt.load_trace
    ),
    "trace-route-restarted": Reader("t.jsonl", lambda: _RESTARTED, moeopt.load_trace),
    "counts-array-npy": Reader("c.npy", partial(_array, _LOADS), moeopt.load_counts),
    "counts-array-npz": Reader("c.npz", partial(_array, _LOADS, "x"), moeopt.load_counts),
    "counts-json": Reader("c.json", lambda: _json({"logical_count": _LOADS}), moeopt.load_counts),
    "counts-lists-json": Reader("c.json", lambda: _json(_LOADS), moeopt.load_counts),
    "counts-records-json": Reader(
        "c.json", lambda: _json([{"step": 1, "expert_load": _LOADS}]), moeopt.load_counts
    ),
    "counts-usage-json": Reader(
        "c.json",
        lambda: _json({"layer_0": {"expert_counts": {"expert_0": 5, "expert_1": 2}}}),
        moeopt.load_counts,
    ),
    "counts-jsonl": Reader(
        "c.jsonl",
        lambda: _json(
            {
                "record_type": "eplb_load_stats",
                "step": 7,
                "expert_load": _LOADS,
                "p2l_map": [[0, 1, 2, 1], [2, 1, 0, -1]],
            }
            | {"expert_load": [[10, 1, 5, 2], [2, 8, 1, 0]]}
        ),
        moeopt.load_counts,
    ),
    "counts-wide-csv": Reader(
        "c.csv", lambda: b"layer,expert_0,expert_1\n0,5,7\n1,2,3\n", moeopt.load_counts
    ),
    "trace-npz": Reader("t.npz", _npz, moeopt.load_trace),
    "published-exflow-npy": Reader("t.npy", _npy, partial(read_published, format="exflow-npy")),
    "trace-route-jsonl": Reader("t.jsonl", lambda: _ROUTES, moeopt.load_trace),
    "published-moe-balance-jsonl": Reader(
        "t.jsonl", lambda: _BATCHES, partial(read_published, format="moe-balance-jsonl")
    ),
    "published-hdmoe-json": Reader(
        "t.json",
        lambda: b'{"0": [[0, 1], [1, 3]], "1": [[2, 1], [0, 3]]}',
        partial(read_published, format="hdmoe-json"),
    ),
    "trace-answers-json": Reader("t.json", _answer, moeopt.load_trace),
    "published-moe-trace-csv": Reader(
        "t.csv",
        lambda: b"-1,0,0,1\n-2,0,1,3\n",
        partial(read_published, format="moe-trace-csv"),
    ),
    "published-esft-txt": Reader(
        "t.txt",
        lambda: b"0\t1\t1\t3\t\t0.5\t0.5\t0.9\t0.1\n",
        partial(read_published, format="esft-txt", top_k=2),
    ),
    "trace-pt": Reader("t.pt", _recording, moeopt.load_trace),
    "counts-csv": Reader(
        "c.csv", lambda: b"layer,expert,count\n0,0,5\n0,1,7\n", moeopt.load_counts
    ),
    "counts-csv-gz": Reader(
        "c.csv.gz", lambda: gzip.compress(b"layer,expert,count\n0,0,5\n0,1,7\n"), moeopt.load_counts
    ),
    "instance-gz": Reader("i.json.gz", lambda: gzip.compress(_instance("tri_domain")), moeopt.load),
    "solution": Reader("s.json", _solution, moeopt.load_solution),
    "machine": Reader(
        "m.json",
        lambda: (ROOT / "moeopt/sim/presets/machines/trimoe.json").read_bytes(),
        get_machine,
    ),
    "model": Reader(
        "m.json",
        lambda: next(
            iter(sorted((ROOT / "moeopt/sim/presets/models").glob("*.json")))
        ).read_bytes(),
        get_model,
    ),
    "model-config": Reader("config.json", lambda: _json(_CONFIG), get_model),
    "model-gguf": Reader("m.gguf", _expert_shape, get_model),
    "losses": Reader(
        "l.json", lambda: _json({"bits": [2, 3], "loss": [[[5, 2], [4, 1]]]}), load_loss_table
    ),
    "measurements": Reader("b.json", _BENCH.read_bytes, _read_bench),
    "campaign": Reader("c.toml", lambda: _CAMPAIGN, read_campaign),
    "store": Reader("s.db", _store, _read_store),
    "map-json": Reader("e.json", lambda: _json(_SGLANG), lambda path: read_copies(path, 0, 2, 4)),
    "sol": Reader("x.sol", lambda: _SOL, read_sol),
    "plan": Reader("plan.json", lambda: _json(_PLAN), moeopt.load_plan),
    "sol-highs": Reader("x.sol", _highs, _read_answer),
    "sol-scip": Reader("x.sol", lambda: _SCIP, _read_answer),
    "sol-cbc": Reader("x.sol", lambda: _CBC, _read_answer),
    "workload": Reader(
        "w.json",
        lambda: (ROOT / "moeopt/sim/presets/workloads/hdmoe-mixtral.json").read_bytes(),
        lambda path: find("workloads", Workload, path),
    ),
    "measurements-csv": Reader("p.csv", lambda: _POINTS, moeopt.read_measurements),
    "losses-csv": Reader("l.csv", lambda: _LOSSES, load_loss_table),
    "losses-npz": Reader("l.npz", _losses_npz, load_loss_table),
    "trace-routed-npz": Reader("t.npz", _routed_npz, moeopt.load_trace),
    "counts-imatrix": Reader("i.gguf", _imatrix, moeopt.load_counts),
    # A certificate names the form of its instance's model, which is then built: up to 160 MiB.
    "certificate": Reader("c.json.gz", _certificate, _read_certificate, memory_mib=250),
    "submission": Reader("s.json", _submission, _read_submission),
    "library": Reader("best_known.json", _library, _read_library),
    "provenance": Reader("i.json", partial(_instance, "tri_domain"), _read_provenance),
    "certificate-model": Reader("m.json", _model_file, _read_model),
    "best-known": Reader("best_known.json", _best, _read_best),
}
READERS |= {
    f"measurements-{path.name}": Reader(path.name, path.read_bytes, _read_speeds)
    for path in sorted((ROOT / "tests/sim/data/llama_bench").glob("[bs]*"))
}
READERS |= {
    f"pasted-{path.stem}": Reader("p.txt", path.read_bytes, _read_pasted)
    for path in sorted(_PASTED.glob("*.txt"))
}
READERS |= {
    f"instance-{problem}": Reader("i.json", partial(_instance, problem), moeopt.load)
    for problem in PROBLEMS
}
