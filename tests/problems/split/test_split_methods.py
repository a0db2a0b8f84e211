"""Every method agrees with brute force, a hand-computed anchor and the checker's rules."""

import random

import pytest

import moeopt
from moeopt import InputError
from tests.mathprog.solve import solve
from tests.problems.split.split_random_instances import random_instance
from tests.refusals import refused
from tests.rooms.core import Search
from tests.rooms.problems import compare
from tests.rooms.split import (
    HEURISTICS,
    Instance,
    Model,
    Solution,
    bounds,
    check,
    labels,
    paths_of,
    runs,
    view,
)

DEVICES = [
    {"name": "gpu0", "capacity": 24, "buffer": 1},
    {"name": "gpu1", "capacity": 16, "buffer": 1},
    {"name": "numa0", "capacity": 64, "buffer": 0},
]

MIB = 2**20

NOWHERE = {"attention_ns": [None] * 3, "attention_bytes": 1}


def three_layers() -> Instance:
    """Return three equal layers: GPU 0 holds two layers' experts, GPU 1 one."""
    layer = {
        "attention_ns": [10, 14, 60],
        "attention_bytes": 2,
        "experts_ns": [12, 17, 80],
        "experts_bytes": 9,
    }
    return Instance(
        name="anchor",
        source=2,
        order=[2, 0, 1],
        devices=DEVICES,
        hop_ns=[[0, 9, 5], [9, 0, 5], [5, 5, 0]],
        layers=[layer] * 3,
    )


def test_a_hand_computed_anchor() -> None:
    """Two layers on GPU 0, one on GPU 1: 5 + 2 (10 + 12) + 9 + 14 + 17 + 5 = 94."""
    instance = three_layers()
    for method in ("brute-force", "labels", "cp-sat", "milp", "mathprog"):
        result = solve(instance, method)
        assert (result.status, result.objective) == ("optimal", 94)
    best = Solution(instance="anchor", attention=(0, 0, 1), experts=(0, 0, 1))
    assert check.objective(instance, best) == 94
    assert check.violations(instance, best, 94) == []
    wrong = {
        "SP-C1": {"experts": (0, 0, -1)},
        "SP-C2": {"attention": (0, 0, 0), "experts": (0, 0, 0)},
        "SP-C4": {"attention": (1, 0, 0), "experts": (1, 0, 0)},
    }
    for rule, change in wrong.items():
        assert check.violations(instance, best.model_copy(update=change))[0][0] == rule
    assert check.violations(instance, best, 93)[0][0] == "SP-C5"


def test_a_buffer_alone_can_be_too_much() -> None:
    """Parts of 22 bytes fit into 22, not beside a buffer of 1; an empty device needs none."""
    devices = [DEVICES[0] | {"capacity": 22}, DEVICES[1], DEVICES[2]]
    instance = Instance.model_validate(three_layers().model_dump() | {"devices": devices})
    full = Solution(instance="anchor", attention=(0, 0, 1), experts=(0, 0, 2))
    assert [rule for rule, _ in check.violations(instance, full)] == ["SP-C3"]
    away = Solution(instance="anchor", attention=(2, 2, 2), experts=(2, 2, 2))
    assert check.violations(instance, away) == []


@pytest.mark.parametrize("seeds", [range(15), pytest.param(range(15, 400), marks=pytest.mark.slow)])
def test_every_method_agrees_with_brute_force(seeds: range) -> None:
    """Statuses, optima and bounds; the own method without a model's help."""
    seen = set()
    for seed in seeds:
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force")
        seen.add(truth.status)
        for method in ("cp-sat", "milp", "mathprog"):
            found = solve(instance, method, warm_start=False)
            assert (found.status, found.objective) == (truth.status, truth.objective), instance
        search = Search(limit_s=60)
        labels.solve(instance, search)
        assert search.infeasible == (truth.status == "infeasible")
        assert (search.objective, search.bound) == (truth.objective, truth.objective) or (
            search.infeasible
        )
    assert seen == {"optimal", "infeasible"}


def alike(seed: int) -> Instance:
    """Return 3 or 4 layers in one or two runs on 3 devices, two of which can change places.

    Of every fourth instance the experts are given by tensor.
    """
    rng = random.Random(seed)
    a, b, to, between = (rng.randint(1, 30) for _ in range(4))
    runs = [
        {
            "attention_ns": [a, a, b],
            "attention_bytes": rng.randint(1, 5),
            "experts_ns": [rng.randint(1, 40)] * 2 + [rng.randint(20, 90)],
            "experts_bytes": rng.randint(3, 9),
        }
        for _ in range(rng.randint(1, 2))
    ]
    layers = [run for run in runs for _ in range(4 // len(runs))]
    if seed % 4 == 1:
        more = {"attention_ns": None, "attention_bytes": 0, "experts_bytes": 2}
        layers = [row for layer in layers[:3] for row in (layer, layer | more)]
    return Instance(
        name=f"{seed}",
        source=2,
        order=[2, 1, 0] if seed % 3 == 0 else None,
        devices=[{"name": f"d{n}", "capacity": (14, 14, 60)[n], "buffer": 0} for n in range(3)],
        hop_ns=[[0, between, to], [between, 0, to], [to, to, 0]],
        layers=layers,
    )


def counted_alone(instance: Instance) -> tuple[int, int | None]:
    """Return the bound of the model of runs, and the objective of the split it walks."""
    paths = labels.fitting(paths_of(instance))
    found = runs.counted(paths, bounds.objective_grid(instance), None, 60)
    if found.homes is None:
        return found.bound, None
    at, experts = (tuple(row) for row in found.homes.tolist())
    split = Solution(instance=instance.name, attention=at, experts=experts)
    assert check.violations(instance, split) == []
    return found.bound, check.objective(instance, split)


def test_runs_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bound and split are the optimum; unless walks may fall apart, which then is told."""
    truth = {}
    for seed in range(6):
        truth[seed] = moeopt.solve(alike(seed), "brute-force").objective
        assert counted_alone(alike(seed)) == (truth[seed], truth[seed])
    monkeypatch.setattr(runs._Model, "join", lambda *_: None)
    monkeypatch.setattr(runs, "MOST_IN_ALL_S", 1e-9)  # one answer
    apart = [seed for seed in truth if counted_alone(alike(seed)) != (truth[seed], truth[seed])]
    assert apart
    assert all(counted_alone(alike(seed))[1] is None for seed in apart)


def test_packings_cut_off_no_whole_numbers_and_touch_what_fits() -> None:
    """Each row holds for all pairs that fit, one of them tightly."""
    rng = random.Random(5)
    for _ in range(200):
        sizes, most = (rng.randint(1, 9), rng.randint(1, 9)), (rng.randint(0, 7), rng.randint(0, 7))
        room = rng.randint(0, 60)
        pairs = [(a, e) for a in range(most[0] + 1) for e in range(most[1] + 1)]
        fit = {(a, e) for a, e in pairs if sizes[0] * a + sizes[1] * e <= room}
        rows = runs.packings(sizes, most, room)
        for p, q, r in rows:
            assert max(p * a + q * e for a, e in fit) == r


def test_kinds_of_layers_bound_where_runs_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bound is below and the split above the optimum; both are it somewhere."""
    monkeypatch.setattr(runs, "MOST_NUMBERS", 0)
    met = []
    for seed in range(40):
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force").objective
        if truth is not None:
            bound, found = counted_alone(instance)
            assert bound <= truth
            assert found is None or found >= truth
            met.append(bound == found)
    assert any(met)


def taking_turns(seed: int) -> Instance:
    """Return layers of two kinds, one after the other; of every third instance by tensor."""
    rng = random.Random(seed)
    by_tensor = seed % 3 == 2

    def times() -> list[int | None]:
        return [rng.choice((None, *range(1, 40))), rng.randint(1, 40), rng.randint(20, 90)]

    kinds = []
    for _ in range(2):
        parts = {"attention_ns": times(), "attention_bytes": rng.randint(1, 6)}
        layer = parts | {
            "experts_ns": times() if rng.random() < 0.8 else None,
            "experts_bytes": rng.randint(2, 9),
        }
        more = {"attention_ns": None, "attention_bytes": 0, "experts_ns": times()}
        apart = by_tensor and layer["experts_ns"] is not None
        kinds.append([layer, layer | more] if apart else [layer])
    turns = (0, 1, 0) if by_tensor else ((0, 1, 0, 1), (1, 0, 0, 1), (0, 1, 0, 1))[seed % 3]
    return Instance(
        name=f"{seed}",
        source=rng.randrange(3),
        order=rng.choice(([2, 0, 1], [0, 1, 2], [1, 2])),
        devices=[
            {"name": f"d{n}", "capacity": rng.randint(8, 30) + 30 * (n == 2), "buffer": n % 2}
            for n in range(3)
        ],
        hop_ns=[[rng.randint(0, 30) * (i != j) for j in range(3)] for i in range(3)],
        layers=[row for kind in turns for row in kinds[kind]],
    )


@pytest.mark.parametrize("seeds", [range(6, 13), pytest.param(range(40), marks=pytest.mark.slow)])
def test_kinds_that_take_turns_are_exact(monkeypatch: pytest.MonkeyPatch, seeds: range) -> None:
    """Bound and split of the model of blocks are the optimum, or it says that there is none."""
    monkeypatch.setattr(runs, "TURNS", 1)
    truth = {}
    for seed in seeds:
        instance = taking_turns(seed)
        assert runs.stretches_of(paths_of(instance)) is None
        truth[seed] = moeopt.solve(instance, "brute-force").objective
        if truth[seed] is not None:
            assert counted_alone(instance) == (truth[seed], truth[seed])
        else:
            paths = labels.fitting(paths_of(instance))
            assert runs.counted(paths, bounds.objective_grid(instance), None, 60).infeasible
    assert None in truth.values()


def test_one_way_leads_through_all_blocks() -> None:
    """Two layers on each GPU: 4 x 2, and 1 + 60 + 1 between; not twice there and back."""
    layer = {"attention_ns": [2, 2, None], "attention_bytes": 1, "experts_ns": None}
    instance = Instance(
        name="way",
        source=2,
        order=[0, 1],
        devices=[{"name": f"d{n}", "capacity": 4, "buffer": 0} for n in range(3)],
        hop_ns=[[0, 60, 1], [60, 0, 1], [1, 1, 0]],
        layers=[layer | {"attention_bytes": size} for size in (1, 2, 1, 2)],
    )
    assert counted_alone(instance) == (70, 70)


def test_bounds_are_below_and_rules_above() -> None:
    """By brute force, and the event engine agrees with the checker; each is tight somewhere."""
    tight, optimal = 0, dict.fromkeys(HEURISTICS, 0)
    for seed in range(60):
        instance = random_instance(seed)
        truth = moeopt.solve(instance, "brute-force")
        if truth.objective is None:
            assert all(rule(instance) is None for rule in HEURISTICS.values())
            continue
        assert bounds.lower_bound(instance) <= truth.objective
        assert truth.objective % bounds.objective_grid(instance) == 0
        assert compare(instance, truth.solution).agree
        tight += bounds.lower_bound(instance) == truth.objective
        for name, rule in HEURISTICS.items():
            found = rule(instance)
            if found is not None:
                assert check.violations(instance, found) == []
                assert check.objective(instance, found) >= truth.objective
                optimal[name] += check.objective(instance, found) == truth.objective
    assert tight
    assert all(optimal.values())


@pytest.mark.parametrize("rule", check.CONSTRAINTS)
def test_a_constraint_that_is_left_out_is_missed(rule: str) -> None:
    """Without it the model finds less than the optimum, or what the checker refuses."""
    assert rule in Model.constraints()
    for seed in range(60):
        instance = random_instance(seed)
        with_all = moeopt.solve(instance, "brute-force")
        without = moeopt.solve(instance, "cp-sat", without=[rule], warm_start=False)
        if without.objective != with_all.objective or without.violations:
            return
    pytest.fail(f"{rule} changes nothing")


@pytest.mark.slow
def test_more_memory_faster_links_and_one_gpu_more_never_cost() -> None:
    """A GPU may be left out."""
    for seed in range(25):
        instance = random_instance(seed).model_copy(update={"order": None})
        before = moeopt.solve(instance, "labels").objective
        data = instance.model_dump()
        larger = [device | {"capacity": device["capacity"] + 7} for device in data["devices"]]
        faster = [[time // 2 for time in row] for row in data["hop_ns"]]
        grown = data | {
            "devices": [*data["devices"], {"name": "new", "capacity": 20, "buffer": 1}],
            "hop_ns": [*([*row, 3] for row in data["hop_ns"]), [3] * len(data["devices"]) + [0]],
            "prompt_hop_ns": None,
            "layers": [
                {
                    name: None if time is None else [*time, 5] if name.endswith("ns") else time
                    for name, time in layer.items()
                }
                for layer in data["layers"]
            ],
        }
        changes = [data | {"devices": larger}, data | {"hop_ns": faster}]
        if data["prompt_hop_ns"] is None:
            changes.append(grown)
        for change in changes:
            after = moeopt.solve(Instance.model_validate(change), "labels").objective
            assert before is None or (after is not None and after <= before)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"source": 3}, "source: there is no device 3"),
        ({"order": [0, 0]}, "order[1]: names device 0 twice"),
        ({"hop_ns": [[0, 1, 1]]}, "hop_ns: must have one row per device, 3, not 1"),
        ({"hop_ns": [[0, 1, -1], [1, 0, 1], [1, 1, 0]]}, "hop_ns[0][2]"),
        ({"devices": []}, "devices"),
        ({"layers": [NOWHERE]}, "layers[0].attention_ns"),
        ({"layers": [NOWHERE | {"attention_ns": None}]}, "layers[0].attention_ns"),
    ],
)
def test_wrong_data_are_refused_in_one_line(change: dict[str, object], words: str) -> None:
    """Field, value and what would be right."""
    assert words in refused(Instance.model_validate, three_layers().model_dump() | change)


def test_seven_gpus_and_two_nodes_within_half_a_percent() -> None:
    """94 layers; the bound comes from the model of runs."""
    kinds = [(24, 900), (24, 900), (32, 1700), (16, 400), (48, 760), (24, 900), (16, 400)]
    names = [f"gpu{n}" for n in range(7)] + ["numa0", "numa1"]
    devices = [
        {"name": name, "capacity": kinds[n][0] * 1000 if n < 7 else 10**6, "buffer": 1500 * (n < 7)}
        for n, name in enumerate(names)
    ]
    attention = [60_000 + 120_000_000 // rate for _, rate in kinds] + [400_000] * 2
    experts = [30_000 + 87_500_000 // rate for _, rate in kinds] + [700_000] * 2
    hops = [
        [0 if i == j else 20_000 if max(i, j) < 7 else 12_000 for j in range(9)] for i in range(9)
    ]
    layer = {
        "attention_ns": [time // 1000 * 1000 for time in attention],
        "attention_bytes": 120,
        "experts_ns": [time // 1000 * 1000 for time in experts],
        "experts_bytes": 1400,
    }
    instance = Instance(
        name="large", source=7, order=[7, 8, *range(7)], devices=devices, hop_ns=hops,
        layers=[layer] * 94,
    )  # fmt: skip
    result = moeopt.solve(instance, "labels", time_limit_s=60)
    assert result.objective is not None
    assert result.bound is not None
    assert result.objective - result.bound <= 0.005 * result.objective


def test_assumptions_of_the_rules() -> None:
    """A margin keeps a fit from the last MiB; which layers' experts leave is either end's."""
    device = {"capacity": 3 * 1024 * MIB, "buffer": 500 * MIB}
    layer = {"attention_ns": [1, 9], "attention_bytes": 10 * MIB, "experts_ns": [2, 9]}
    instance = Instance.model_validate(
        {
            "problem": "split", "schema_version": 1, "name": "x", "source": 1, "order": [1, 0],
            "devices": [{"name": "gpu0", **device}, {"name": "host", "capacity": 2**40}],
            "hop_ns": [[0, 1], [1, 0]], "layers": [layer | {"experts_bytes": 500 * MIB}] * 6,
        }
    )  # fmt: skip

    def experts(rule: str) -> tuple[int, ...]:
        found = moeopt.solve(instance, rule).solution
        assert isinstance(found, Solution)
        return found.experts

    for name in ("llama.cpp-fit", "ik-auto-fit"):
        assert experts(name).count(0) == experts(f"{name}[margin=0]").count(0) == 5
        assert experts(f"{name}[margin=1024]").count(0) == 2
    for name in ("tensor-split-then-n-cpu-moe", "one-gpu-only"):
        assert experts(name) == (1, 0, 0, 0, 0, 0)
        assert experts(f"{name}[leave=last]") == (0, 0, 0, 0, 0, 1)


def test_tensors_are_named_by_their_layer() -> None:
    """Rows of a layer given by tensor are one layer, in words; its parts never cost more apart."""
    layer = three_layers().model_dump()["layers"][0]
    more = layer | {"attention_ns": None, "attention_bytes": 0}
    apart = [row | {"experts_ns": [4, 6, 27], "experts_bytes": 3} for row in (layer, more, more)]
    data = three_layers().model_dump() | {"layers": apart * 3}
    instance = Instance.model_validate(data)
    result = moeopt.solve(instance, "labels")
    assert isinstance(result.objective, int)
    assert result.status == "optimal"
    assert result.objective <= 94 + 3  # thirds, rounded up
    fit = HEURISTICS["llama.cpp-fit"](instance)
    assert fit is not None
    moved = result.solution.model_copy(update={"experts": (2, *result.solution.experts[1:])})
    [(size, where, *_)] = view.differences(instance, moved, result.solution)
    assert (size, where) == (3, "layer 0, tensor 0: experts")
    said = [words for words, _ in view.changes(instance, fit)]
    assert any(words.startswith("attention of layer 2 on ") for words in said)


def test_two_devices_have_two_names() -> None:
    """A split could not be told apart otherwise."""
    with pytest.raises(InputError, match="must differ from other devices' names"):
        Instance.model_validate(
            three_layers().model_dump(mode="json") | {"devices": [DEVICES[0], *DEVICES[:2]]}
        )
