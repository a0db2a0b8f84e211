"""Cost tables, loads and random plans for the tests of decode steps."""

import random
from typing import Any

import numpy as np

from moeopt import Plan
from tests.rooms.systems import PATHS, CostTable, Loads

LAYERS, EXPERTS, DIMMS = 4, 6, 3

POLICIES = ["gpu-only", "cpu-for-misses", "greedy", "greedy[tie_order=ndp]", "trimoe", "monde"]
POLICIES += ["trimoe[refinement=all,delta=cost]", "klotski", "ktransformers", "fiddler"]
POLICIES += ["fiddler-as-coded", "hybrimoe", "monde[striped_experts=cpu]"]
POLICIES += ["ktransformers[hot_loading=none]"]


def flat_costs(most_tokens: int = 8, **ns: int) -> CostTable:
    """Return costs that do not depend on tokens; paths that are not named take no time."""
    row = [0] + [1] * most_tokens
    known = {"fetch_ns": 0, "move_ns": 0, "striped_ns": 0, "localized_ns": 0} | ns
    return CostTable(
        path_ns={path: np.array([row]) * ns.get(path, 0) for path in PATHS},
        read_ns={name: np.array([known[f"{name}_ns"]]) for name in ("striped", "localized")},
        fetch_ns=np.array([known["fetch_ns"]]),
        move_ns=np.array([known["move_ns"]]),
    )


def random_costs(rng: random.Random, widths: int, most_tokens: int = 8) -> CostTable:
    """Return costs that rise with the tokens, some of them zero."""

    def rising() -> list[int]:
        values = [0]
        for _ in range(most_tokens):
            values.append(values[-1] + rng.choice([0, 1, 5, 30]))
        return values

    def one() -> list[int]:
        return [rng.choice([0, 3, 20, 150]) for _ in range(widths)]

    return CostTable(
        path_ns={path: np.array([rising() for _ in range(widths)]) for path in PATHS},
        read_ns={name: np.array(one()) for name in ("striped", "localized")},
        fetch_ns=np.array(one()),
        move_ns=np.array(one()),
    )


def random_loads(rng: random.Random, steps: int = 3, top_k: int = 3, batch: int = 2) -> Loads:
    """Return routed tokens, with the router's order."""
    ids = np.array(
        [
            [[rng.sample(range(EXPERTS), top_k) for _ in range(LAYERS)] for _ in range(batch)]
            for _ in range(steps)
        ]
    )
    counts = np.zeros((steps, LAYERS, EXPERTS), dtype=np.int64)
    for step in range(steps):
        for layer in range(LAYERS):
            counts[step, layer] = np.bincount(ids[step, :, layer].ravel(), minlength=EXPERTS)
    return Loads(counts, np.full(steps, batch), list(ids))


def random_plan(rng: random.Random, steps: int = 3) -> Plan:
    """Return a plan that uses every part of the schema now and then."""

    def sometimes(make: Any, otherwise: Any) -> Any:
        return make() if rng.random() < 0.5 else otherwise

    def time() -> list[int]:
        return [rng.choice([0, 0, 7, 40]) for _ in range(LAYERS)]

    layout = [[rng.choice([None, *range(DIMMS)]) for _ in range(EXPERTS)] for _ in range(LAYERS)]
    plan = {
        "policy": rng.choice(POLICIES),
        "layout": sometimes(lambda: layout, None),
        "resident": sometimes(lambda: [rng.sample(range(EXPERTS), 2)], None),
        "cache_ways": sometimes(lambda: [rng.randrange(4) for _ in range(LAYERS)], 0),
        "deferred": sometimes(lambda: [rng.randrange(4) for _ in range(LAYERS)], 0),
        "bits": sometimes(lambda: [[rng.choice([2, 4]) for _ in range(EXPERTS)]], None),
        "window": rng.choice(["attention", "given", "unlimited"]),
        "pcie_window_ns": rng.choice([0, 20, 50]),
        "dimm_link_window_ns": rng.choice([0, 20, 50]),
        "dimm_links": rng.choice(["shared", "per-dimm"]),
        "gpu_work": rng.choice(["two parts", "one path"]),
        "times": {
            name: time()
            for name in ("attention_ns", "other_ns", "shared_ns", "to_host_ns", "to_gpu_ns")
        }
        | {"step_ns": rng.choice([0, 11])},
    }
    plan["migrations"] = [
        {
            "step": rng.choice([None, *range(steps)]),
            "layer": rng.randrange(LAYERS),
            "expert": expert,
            "kind": kind,
            "dimm": None,
        }
        for expert, kind in enumerate(rng.choices(["prefetch", "stripe"], k=4))
    ]
    return Plan.model_validate(plan)
