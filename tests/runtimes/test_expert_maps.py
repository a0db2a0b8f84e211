"""Maps of experts through the runtimes' own loaders: the placement read back is the plan."""

import json
import shlex
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from tests.exporters.placements import EXPERTS, LAYERS, instance, random_plan, sets, shape
from tests.rooms.exporters import classes_of, expert_map, slots_of
from tests.rooms.placement import Solution
from tests.rooms.planner import slot_map_of
from tests.rooms.sim import Counts, get_model
from tests.rooms.solvers import Limits
from tests.runtimes.consumers import child, fetched, needs, source

pytestmark = pytest.mark.runtimes

DENSE = [(), (0,), (0, 1)]


def exported(
    tmp_path: Path, to: str, dense: tuple[int, ...], seed: int, **options: Any
) -> tuple[Path, Solution, Any]:
    """Return a file, the plan that it holds, and its notes."""
    given = instance(seed)
    solution = random_plan(given, seed + 7)
    made = moeopt.export(solution, given, to=to, model=shape(dense), options=options)
    return made.save(tmp_path / f"m{made.suffix}")[0], solution, made


@pytest.mark.parametrize("dense", DENSE)
@pytest.mark.parametrize("ep_size", [1, 2])
def test_sglang_reads_the_plan(dense: tuple[int, ...], ep_size: int, tmp_path: Path) -> None:
    """Through `compute_initial_expert_location_metadata`, with its copies."""
    needs("torch")
    package = fetched("sglang")
    path, solution, made = exported(tmp_path, "sglang", dense, ep_size, ep_size=ep_size)
    copies = -EXPERTS % ep_size
    given = {
        "package": str(package), "map": str(path), "layers": LAYERS + len(dense),
        "experts": EXPERTS, "ep_size": ep_size, "redundant": copies, "honours": True,
    }  # fmt: skip
    rows = child("sglang_map.py", given)
    hidden = made.notes["moe_layers"]
    assert rows == json.loads(made.text)["physical_to_logical_map"]
    if ep_size > 1:
        assert [tuple(own) for own in made.notes["gpu"]] == sets(solution.gpu)
        return
    assert [rows[layer] for layer in hidden] == [slots_of(own, EXPERTS, 0) for own in solution.gpu]
    counts = [made.notes["per_layer"][layer] for layer in hidden]
    found = [tuple(sorted(rows[la][:n])) for la, n in zip(hidden, counts, strict=True)]
    assert found == sets(solution.gpu)


def balanced(tmp_path: Path, to: str) -> tuple[Path, list[list[int]]]:
    """Return a map of expert parallelism and its experts: 16 copies in each of 26 layers."""
    rng = np.random.default_rng(4)
    counts = Counts("drawn", rng.integers(1, 9000, size=(1, 26, 64)))
    model = get_model("deepseek-v2-lite")
    report = moeopt.plan_expert_parallel(counts, 8, 16, model=model, limits=Limits(work=1.0))
    found = slot_map_of(report, model)
    return expert_map(found, to).save(tmp_path / "map")[0], found.rows


def test_sglang_reads_the_map_of_expert_parallelism(tmp_path: Path) -> None:
    """All layers of a model, the one without experts included, by its loader of maps."""
    needs("torch")
    path, rows = balanced(tmp_path, "sglang")
    path = path.rename(path.with_suffix(".json"))
    given = {
        "package": str(fetched("sglang")), "map": str(path), "layers": 27, "experts": 64,
        "ep_size": 8, "redundant": 16, "honours": True,
    }  # fmt: skip
    assert child("sglang_map.py", given)[1:] == rows


def test_tensorrt_llm_reads_the_map_of_expert_parallelism(tmp_path: Path) -> None:
    """Its class of load balancer's options; each rank's slots, by the model's number of layer."""
    needs("yaml")
    module = source("TENSORRT_LLM", "tensorrt_llm/llmapi/llm_args.py", "TensorRT-LLM's sources")
    path, rows = balanced(tmp_path, "tensorrt-llm")
    given = {
        "source": str(module), "map": str(path), "layers": list(range(1, 27)), "ep_size": 8,
    }  # fmt: skip
    found = child("tensorrt_llm_map.py", given)
    assert found["updates"] == 0
    assert [[*chain(*own)] for own in zip(*found["slots"], strict=True)] == rows


def test_sglang_drops_it_for_other_models(tmp_path: Path) -> None:
    """Without a word: what the exporter warns of."""
    needs("torch")
    package = fetched("sglang")
    path, _, _ = exported(tmp_path, "sglang", (), 0)
    given = {
        "package": str(package), "map": str(path), "layers": LAYERS, "experts": EXPERTS,
        "ep_size": 1, "redundant": 0, "honours": False,
    }  # fmt: skip
    assert child("sglang_map.py", given) is None


def test_the_list_of_sglangs_models_is_right() -> None:
    """Every class that is listed takes a map; those that do and are not listed are drafts."""
    classes = child("sglang_classes.py", {"package": str(fetched("sglang"))})
    taking = {name for name, takes in classes.items() if takes}
    listed = set(classes_of("sglang")["yes"])
    assert taking >= listed
    drafts = ("NextN", "MTP", "Eagle", "EmbeddingModel", "SequenceClassification")
    left = {name for name in taking - listed if not name.endswith(drafts)}
    assert left == {"MindSporeForCausalLM"}  # which runs its models by another framework
    for name in ("MixtralForCausalLM", "PhiMoEForCausalLM", "OlmoeForCausalLM"):
        assert classes[name] is False
    assert classes["DeepseekForCausalLM"] is False


@pytest.mark.parametrize("dense", [(), (0,), (0, 1)])
@pytest.mark.parametrize("seed", range(3))
def test_ktransformers_chooses_the_plans_experts(
    dense: tuple[int, ...], seed: int, tmp_path: Path
) -> None:
    """Through sglang-kt's function, with kt-kernel's choice and torch's reading of the file."""
    needs("torch")
    package, kernel = fetched("sglang-kt"), fetched("kt-kernel")
    path, solution, made = exported(tmp_path, "ktransformers", dense, seed)
    config = {
        "num_hidden_layers": LAYERS + len(dense), "n_routed_experts": EXPERTS,
        "first_k_dense_replace": len(dense), "moe_layer_freq": 1,
    }  # fmt: skip
    given = {
        "package": str(package), "counts": str(path), "config": config,
        "ratio": made.notes["kt_gpu_experts_ratio"],
    }  # fmt: skip
    masks = child("kt_masks.py", given, kernel)
    assert [tuple(masks[layer]) for layer in made.notes["moe_layers"]] == sets(solution.gpu)
    assert all(masks[layer] == list(range(EXPERTS)) for layer in dense)


@pytest.mark.parametrize(
    ("model", "setting"),
    [
        ("qwen3-30b-a3b", {"gpu_experts": 20}),
        ("deepseek-v2-lite", {"n_cpu_moe": 17}),
        ("qwen3-30b-a3b", {"n_cpu_moe": 0}),
        ("glm-4.5-air", {}),
    ],
)
def test_ktransformers_places_what_was_predicted(model: str, setting: dict[str, int]) -> None:
    """`predict`'s command line, by sglang-kt's own parser, then by its own placement."""
    needs("torch")
    package, kernel = fetched("sglang-kt"), fetched("kt-kernel")
    found = moeopt.predict(
        "rtx5090+2xepyc-9004", model, bits=4, kv_bits=8, context=9000, runtime="ktransformers",
        **setting,  # type: ignore[arg-type]
    )  # fmt: skip
    words = shlex.split(found.command or "")
    names = [
        "kt_gpu_experts_ratio", "kt_num_gpu_experts", "kt_expert_placement_strategy", "model_path",
        "context_length", "chunked_prefill_size", "kv_cache_dtype", "kt_cpuinfer", "kt_method",
        "kt_threadpool_count",
    ]  # fmt: skip
    given = {"package": str(package), "lines": [words[3:]], "names": names}
    [[ratio, count, strategy, *rest]] = [
        list(one.values()) for one in child("kt_arguments.py", given)
    ]
    assert rest == [model, 9000, 512, "fp8_e4m3", 64, "AMXINT4", 2]
    shape = get_model(model)
    moe, experts = shape.moe_layers, shape.routed_experts
    config = {
        "num_hidden_layers": shape.layers, "n_routed_experts": experts,
        "first_k_dense_replace": shape.dense_layers, "moe_layer_freq": 1,
    }  # fmt: skip
    given = {"package": str(package), "config": config, "ratio": ratio}
    masks = child("kt_masks.py", given | {"count": count, "strategy": strategy}, kernel)
    held = [len(masks[layer]) for layer in moe]
    if "gpu_experts" in setting:
        assert held == [setting["gpu_experts"]] * len(moe)
        return
    assert found.n_cpu_moe is not None
    assert set(held) <= {0, experts}
    assert held.count(0) == sum(layer < found.n_cpu_moe for layer in moe)
