"""Plan files: round trip, defaults, and one clear line for what cannot be used."""

import json
import random
from pathlib import Path
from typing import Any

import pytest

from moeopt import InputError, Plan, get_machine, load_plan, save
from tests.refusals import refused
from tests.rooms.sim import (
    Extent,
    check_fits,
    get_model,
    step_costs,
    times_of_step,
)

from .engine.decode_cases import DIMMS, EXPERTS, LAYERS, random_plan

EXTENT = Extent(steps=3, layers=LAYERS, experts=EXPERTS, dimms=DIMMS)


def test_plans_survive_a_file(tmp_path: Path) -> None:
    """What is written is what is read, and every random plan fits."""
    for seed in range(40):
        plan = random_plan(random.Random(seed))
        save(plan, tmp_path / "plan.json.gz")
        assert load_plan(tmp_path / "plan.json.gz") == plan
        check_fits(plan, EXTENT)


def test_an_empty_file_is_the_default_plan(tmp_path: Path) -> None:
    """Every part is optional; a bare number stands for every layer."""
    (tmp_path / "plan.json").write_text("{}")
    assert load_plan(tmp_path / "plan.json") == Plan()
    (tmp_path / "plan.json").write_text('{"cache_ways": 3, "times": {"attention_ns": 7}}')
    plan = load_plan(tmp_path / "plan.json")
    assert (plan.cache_ways, plan.times.attention_ns) == ((3,), (7,))


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"wys": 1}, "wys: is not a known key"),
        ({"times": {"attention_ns": -1}}, "times.attention_ns[0]: must be at least 0, not -1"),
        ({"cache_ways": []}, "cache_ways: "),
        ({"window": "wide"}, "window: must be 'attention', 'given' or 'unlimited', not \"wide\""),
        (
            {"migrations": [{"layer": 0, "expert": 1, "kind": "prefetch", "dimm": 2}]},
            "migrations[0].dimm: must be null because kind is prefetch, not 2",
        ),
        (
            {"migrations": [{"layer": 0, "expert": 1, "kind": "localize"}]},
            "migrations[0].dimm: must be an integer because kind is localize",
        ),
    ],
)
def test_bad_files(tmp_path: Path, data: dict[str, Any], error: str) -> None:
    """File, field and reason on one line."""
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(data))
    said = refused(load_plan, path)
    assert said.startswith(f"{path}: {error}")
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("data", "error"),
    [
        ({"resident": [[0], [1]]}, "resident: has 2 entries for 4 layers"),
        ({"resident": [[6]]}, r"resident\[0\]: must be below experts = 6, not 6"),
        ({"resident": [[1, 1]]}, r"resident\[0\]: expert 1 stands there twice"),
        ({"layout": [[None]]}, r"layout\[0\]: has 1 entries for 6 experts"),
        ({"layout": [[None] * 5 + [3]]}, r"layout\[0\]\[5\]: must be below dimms = 3, not 3"),
        ({"bits": [[4, 4]]}, r"bits\[0\]: has 2 entries for 6 experts"),
        ({"cache_ways": 7}, r"cache_ways\[0\]: must be below experts \+ 1 = 7, not 7"),
        ({"deferred": [0] * 5}, "deferred: has 5 entries for 4 layers"),
        ({"times": {"to_gpu_ns": [1, 2]}}, "times.to_gpu_ns: has 2 entries for 4 layers"),
        (
            {"assignments": [{"layer": 4}]},
            r"assignments\[0\].layer: must be below layers = 4, not 4",
        ),
        (
            {"assignments": [{"layer": 0, "gpu": [1], "cpu": [1]}]},
            r"assignments\[0\]: expert 1 stands there twice",
        ),
        (
            {"assignments": [{"layer": 0, "step": 3}]},
            r"assignments\[0\].step: must be below steps = 3, not 3",
        ),
        (
            {"migrations": [{"layer": 0, "expert": 9, "kind": "stripe"}]},
            r"migrations\[0\].expert: must be below experts = 6, not 9",
        ),
        (
            {"migrations": [{"layer": 0, "expert": 1, "kind": "localize", "dimm": 3}]},
            r"migrations\[0\].dimm: must be below dimms = 3, not 3",
        ),
    ],
)
def test_plans_that_do_not_fit(data: dict[str, Any], error: str) -> None:
    """The field, and how much there is."""
    with pytest.raises(InputError, match=f"^plan: {error}$"):
        check_fits(Plan.model_validate(data), EXTENT)


def test_dense_layers_and_head_are_due_once_per_step() -> None:
    """DeepSeek-V3 has 61 layers, the first 3 without experts: 3 x (attention + dense) + head."""
    machine, model = get_machine("ktransformers-a100"), get_model("deepseek-v3")
    cost, times = (
        step_costs(machine, model).layer(2, 500),
        times_of_step(step_costs(machine, model), 2, 500),
    )
    assert times.attention_ns == (cost.attention_ns,)
    assert times.to_host_ns == times.to_gpu_ns == (cost.sync_ns,)
    assert times.step_ns == 3 * (cost.attention_ns + cost.dense_ns) + cost.head_ns
    assert cost.sync_ns > 0
    assert cost.head_ns > 0
