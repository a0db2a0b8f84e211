"""Maps for SGLang: its loader's rules, and the way back to the plan."""

import json
import shlex
import sys
from pathlib import Path

import pytest

import moeopt
from moeopt import InputError
from tests.exporters.expert_map_rules import sglang_faults
from tests.exporters.placements import (
    EXPERTS,
    LAYERS,
    instance,
    plan,
    random_plan,
    sets,
    shape,
)
from tests.rooms.exporters import (
    Job,
    OptionValue,
    SlotMap,
    all_targets,
    classes_of,
    slots_of,
)
from tests.rooms.sim import get_model
from tests.rooms.sim import preset_names as names

DENSE = [(), (0,), (0, 1), (1, 3), (4,)]
NAME = "TinyForCausalLM"


@pytest.mark.parametrize(
    ("dense", "ep_size"),
    [(DENSE[0], 1), (DENSE[1], 2), (DENSE[2], 3), (DENSE[3], 5), (DENSE[4], 2)],
)
def test_sglang_reads_it_and_it_leads_back(
    dense: tuple[int, ...], ep_size: int, tmp_path: Path
) -> None:
    """One key; a row for every layer of the model; side file and map together give the plan."""
    for seed in range(2):
        given = instance(seed)
        solution = random_plan(given, seed)
        exported = moeopt.export(
            solution, given, to="sglang", model=shape(dense), options={"ep_size": ep_size}
        )
        path, notes = exported.save(tmp_path / "map.json")
        data = json.loads(path.read_text())
        assert sglang_faults(data, LAYERS + len(dense), EXPERTS, ep_size) == []
        rows = data["physical_to_logical_map"]
        for layer in dense:
            assert rows[layer][:EXPERTS] == list(range(EXPERTS))
        side = json.loads(notes.read_text())
        moe = [(rows[layer], side["per_layer"][layer]) for layer in side["moe_layers"]]
        found = [tuple(sorted(row[:count])) for row, count in moe]
        assert (found if ep_size == 1 else list(map(tuple, side["gpu"]))) == sets(solution.gpu)
        assert [side["per_layer"][layer] for layer in side["moe_layers"]] == [
            len(row) for row in solution.gpu
        ]
        assert side["objective"] == moeopt.check(given, solution).objective
        assert (side["loss"], side["instance"], side["target"]) == (None, given.name, "sglang")


def test_sglang_drops_maps_of_some_models() -> None:
    """By the model's class, of presets too: four of them; a class that is not known is said."""
    takes = classes_of("sglang")["yes"]
    dropped = {name for name in names("models") if get_model(name).model_class not in takes}
    assert dropped == {"mixtral-8x7b", "mixtral-8x22b", "phi-3.5-moe", "deepseek-moe-16b"}
    given = instance(0, slots=LAYERS * EXPERTS)
    solution = plan(given, [range(EXPERTS)] * LAYERS)
    lacks = "OlmoeForCausalLM has no get_model_config_for_expert_location"
    for model_class, options, reason in (
        ("Qwen3MoeForCausalLM", {}, None),
        ("OlmoeForCausalLM", {}, lacks),
        ("OlmoeForCausalLM", {"model_class": "Qwen3MoeForCausalLM"}, None),
        (None, {}, "the model's class is not known: give --model-class"),
    ):
        exported = moeopt.export(
            solution, given, to="sglang", model=shape(model_class=model_class), options=options
        )
        assert exported.all_notes()["warnings"] == list(exported.warnings)
        known = options.get("model_class", model_class)
        assert exported.notes["honoured"] == (
            "unknown" if known is None else "no" if reason else "yes"
        )
        assert [text.endswith(reason or "-") for text in exported.warnings] == [True] * bool(reason)


@pytest.mark.parametrize(
    ("to", "model_class", "honoured", "says"),
    [
        ("llama.cpp-profile", "DeepseekV2ForCausalLM", "yes", ""),
        ("llama.cpp-profile", "OlmoeForCausalLM", "unknown", "the fork"),
        ("sglang", "Qwen3MoeForCausalLM", "yes", ""),
        ("ktransformers", "Qwen3MoeForCausalLM", "unknown", ""),
        ("llama.cpp", None, "yes", ""),
    ],
)
def test_whether_a_consumer_carries_a_file_out(
    to: str, model_class: str | None, honoured: str, says: str
) -> None:
    """Yes, no or unknown, by the classes that were read in its own code; a reason where not yes."""
    target, given = all_targets()[to], instance(0)
    job = Job(given, random_plan(given, 0), shape=shape((), model_class=model_class))
    assert target.honoured(job) == honoured
    assert any(says in line for line in target.warn(job)) or not says


def test_experts_off_the_gpu_are_said_to_be_ignored() -> None:
    """A placement of all experts has nothing of the kind."""
    given = instance(0, slots=LAYERS * EXPERTS)
    for gpu, warned in (([range(EXPERTS)] * LAYERS, False), ([[0]] * LAYERS, True)):
        found = moeopt.export(plan(given, gpu), given, to="sglang", model=shape())
        assert any(text.startswith("SGLang keeps all") for text in found.warnings) == warned


def test_the_table_of_consumers_has_every_target(root: Path) -> None:
    """With the number of classes that `honoured.json` lists."""
    text = (root / "tests/runtimes/README.md").read_text()
    known = json.loads((root / "moeopt/exporters/honoured.json").read_text())
    for name in all_targets():
        row = next(line for line in text.splitlines() if f"`{name}`" in line[: line.find(" | ")])
        if name in known:
            count = len(known[name]["yes"])
            assert f"| {count} class" in row


def test_an_expert_may_have_several_slots(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a problem that decides on copies fills: written as it stands, copies counted."""
    rows = [[0, 1, 2, 3, 4, 1, 2, 1], [4, 3, 4, 2, 1, 0, 4, 3]]
    found = SlotMap(rows, EXPERTS, (1, 2), 3, 4, {}, keeps_all=True)
    module = sys.modules[all_targets()["sglang"].export.__module__]
    monkeypatch.setattr(module, "slot_map", lambda job, devices: found)
    given = instance(0)
    solution = random_plan(given, 0)
    made = moeopt.export(solution, given, to="sglang", model=shape(), options={"ep_size": 4})
    data = json.loads(made.text)
    assert made.flags is not None
    assert sglang_faults(data, 3, EXPERTS, 4) == []
    assert data["physical_to_logical_map"] == [[0, 1, 2, 3, 4, 0, 1, 2], *rows]
    assert made.flags(Path("x")).endswith("--ep-num-redundant-experts 3")


def test_the_flags_name_the_file(tmp_path: Path) -> None:
    """Quoted for a shell; copies are announced."""
    given = instance(0)
    path = tmp_path / "a map.json"
    options: dict[str, OptionValue] = {"ep_size": 2}
    made = moeopt.export(random_plan(given, 0), given, to="sglang", model=shape(), options=options)
    line = made.flags
    assert line is not None
    assert shlex.split(line(path)) == [
        "--init-expert-location", str(path), "--ep-size", "2", "--ep-num-redundant-experts", "1",
    ]  # fmt: skip


def test_slots_begin_with_the_gpus_experts() -> None:
    """Then the others, then copies of the first slots, more than once around if need be."""
    assert slots_of([4, 1], 5, 0) == [1, 4, 0, 2, 3]
    assert slots_of([4, 1], 5, 3) == [1, 4, 0, 2, 3, 1, 4, 0]
    assert slots_of([], 2, 3) == [0, 1, 0, 1, 0]


def test_the_class_comes_from_a_config_json(tmp_path: Path) -> None:
    """The first of its architectures."""
    config = {
        "architectures": [NAME, "Other"],
        "num_hidden_layers": LAYERS + 1,
        "first_k_dense_replace": 1,
        "n_routed_experts": EXPERTS,
        "num_experts_per_tok": 2,
        "hidden_size": 8,
        "moe_intermediate_size": 8,
        "intermediate_size": 8,
    }
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    given = instance(0)
    solution = random_plan(given, 0)
    exported = moeopt.export(solution, given, to="sglang", model=file)
    assert exported.warnings[0].endswith(f"{NAME} has no get_model_config_for_expert_location")


def test_the_model_must_be_known_and_fit() -> None:
    """A preset that the provenance names will do; a file that it names is not opened."""
    given = instance(0)
    solution = random_plan(given, 0)
    for model, reason in (
        (None, "--model: is missing, and the instance's provenance names no preset"),
        (shape(moe_layers=3), "--model: tiny has 3 layers with experts, the plan 4"),
        (shape(experts=6), "--model: tiny has 6 experts per layer, the plan 5"),
        ("nowhere.json", "neither a file nor one of"),
    ):
        with pytest.raises(InputError, match=reason):
            moeopt.export(solution, given, to="sglang", model=model)
    stranger = instance(0, provenance={"model": "pyproject.toml"})
    with pytest.raises(InputError, match="--model: is missing"):
        moeopt.export(solution, stranger, to="sglang")
    known = instance(0, provenance={"model": "mixtral-8x7b"})
    with pytest.raises(InputError, match="mixtral-8x7b has 32 layers with experts, the plan 4"):
        moeopt.export(solution, known, to="sglang")


@pytest.mark.slow
def test_notes_say_what_free_dispatch_is_worth_to_a_runtime() -> None:
    """No format says who computes a resident: runtimes take longer than the plan that knows."""
    times = (0, 9000, 15000)
    free = instance(slots=20, schema_version=2, dispatch="free", gpu_expert_ns=times)
    best = moeopt.solve(free, "price-and-swap").solution
    assert best is not None
    plain = best.model_copy(update={"computed_on_gpu": None})
    notes = moeopt.export(best, free, to="sglang", model=shape()).notes
    assert notes["resident_ns"] == moeopt.check(free, plain).objective
    assert notes["resident_ns"] > notes["objective"]
    assert "resident_ns" not in moeopt.export(plain, free, to="sglang", model=shape()).notes
