"""bitwidth instances: budgets, residents, orders, losses and phases, and every preset."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine
from tests.refusals import refused
from tests.rooms.bitwidth import Instance, Options, Solution, assume, generate, objective, view
from tests.rooms.cli import run
from tests.rooms.core import rounded
from tests.rooms.sim import (
    LossTable,
    Source,
    Trace,
    checked_table,
    get_model,
    load_loss_table,
)
from tests.rooms.sim import preset_names as names

TABLE = LossTable(
    "by hand", (1, 2, 3, 4), np.arange(32 * 8 * 4, 0, -1).reshape(32, 8, 4).astype(float)
)


def mixtral_trace() -> Trace:
    """Return eight tokens: the prompt, tokens 0 to 3, likes expert 7; later ones like expert 0."""
    ids = np.array([[7, 3], [7, 3], [7, 1], [2, 7], [0, 1], [0, 2], [0, 3], [0, 4]])
    return Trace("hand", np.repeat(ids[:, None, :], 32, axis=1))


def save_table(path: Path) -> None:
    """Write the table above, as JSON or CSV by the name's ending."""
    if path.suffix == ".json":
        moeopt.save({"bits": TABLE.bits, "loss": TABLE.losses.tolist()}, path)
        return
    rows = (
        f"{layer},{expert},{','.join(map(repr, losses))}"
        for layer, experts in enumerate(TABLE.losses.tolist())
        for expert, losses in enumerate(experts)
    )
    path.write_text("\n".join(["layer,expert,loss_1bit,loss_2bit,loss_3bit,loss_4bit", *rows]))


def made(table: LossTable | None = TABLE, trace: Trace | None = None, **options: Any) -> Instance:
    """Return a Mixtral instance on the trace and table above."""
    source = Source(get_machine("cxl-ndp"), get_model("mixtral-8x7b"), trace or mixtral_trace())
    return generate(source, Options(**options), table)


def test_the_prompt_decides_importance_and_usage() -> None:
    """P = 0 1 1 2 0 0 0 4 of 8 in each layer; usage is the same share."""
    instance = made()
    layer = instance.layers[0]
    assert [e.importance for e in layer.experts] == [
        0, 125_000, 125_000, 250_000, 0, 0, 0, 500_000
    ]  # fmt: skip
    assert all(sum(e.loss) == 0 for e in layer.experts if not e.importance)
    # A unit is 10^-10 of the layer's largest loss that counts in prompt or answer: of expert 0,
    # which the answer chooses 4 times of 8, as the prompt does expert 7.
    scale = TABLE.losses[0, 0, 0] / 2 / 10**10
    assert layer.loss_scale == scale
    expected = [round(loss / 2 / scale) for loss in TABLE.losses[0, 7]]
    assert list(layer.experts[7].loss) == expected
    assert (instance.schema_version, instance.loss_scale) == (2, 1.0)


def test_all_tokens_may_count_and_those_not_seen_too() -> None:
    """P = 4 2 2 3 1 0 0 4 of 16 over prompt and answer; with one more each 24 in all."""
    counts = np.array([4, 2, 2, 3, 1, 0, 0, 4])
    for prior in (0, 1):
        instance = made(phase="all", prior_choices=prior)
        layer = instance.layers[0]
        shares = (counts + prior) / (counts + prior).sum()
        assert layer.loss_scale is not None
        expected = np.rint(TABLE.losses[0] * shares[:, None] / layer.loss_scale)
        assert [list(e.loss) for e in layer.experts] == expected.astype(int).tolist()
        assert max(e.loss[0] for e in layer.experts) <= 10**10
    assert "prior_choices" not in (made().provenance or {})["options"]


def test_residents_are_the_most_important_experts() -> None:
    """Ties go to the lowest number: 7, 3, 1 leave, 0, 2, 4, 5, 6 stay, in order."""
    instance = made(gpu_experts=3, average_bits=2.5)
    layer = instance.layers[5]
    assert [e.expert for e in layer.experts] == [0, 2, 4, 5, 6]
    assert layer.budget_bits == 12  # 12.5, rounded down


def test_budgets_of_the_model_are_rounded_once() -> None:
    """32 layers of 5 experts at 2.51 bits: 401.6."""
    instance = made(gpu_experts=3, average_bits=2.51, budget="model")
    assert instance.model_budget_bits == 401
    assert all(layer.budget_bits is None for layer in instance.layers)
    assert made(average_bits=2.1, budget="model", layers=10).model_budget_bits == 168


def test_uncounted_losses_are_the_tables() -> None:
    """Every expert counts by an eighth."""
    instance = made(weight="none")
    scales = np.array([layer.loss_scale for layer in instance.layers])[:, None, None]
    expected = np.rint(TABLE.losses / 8 / scales).astype(int)
    found = [[list(e.loss) for e in layer.experts] for layer in instance.layers]
    assert found == expected.tolist()


def wide_table(seed: int = 0) -> LossTable:
    """Return squared errors at 2 to 16 bits, of layers whose losses differ a millionfold."""
    rng = np.random.default_rng(seed)
    bits = (2, 4, 8, 16)
    experts = np.exp(rng.standard_normal((32, 8, 1))) ** 2
    layers = 10.0 ** np.linspace(0, -6, 32)[:, None, None]
    return LossTable("squares", bits, layers * experts * 4.0 ** -np.array(bits))


def used_trace() -> Trace:
    """Return tokens that use every expert of every layer in either half."""
    ids = [[e, (e + 1 + step) % 8] for step in range(2) for e in range(8)]
    return Trace("all", np.repeat(np.array(ids * 2)[:, None, :], 32, axis=1))


@pytest.mark.parametrize("coupling", ["budget", "granularity"])
def test_layers_that_share_something_have_one_unit(coupling: str) -> None:
    """A model's budget or width adds losses of layers up; elsewhere each layer has its own unit."""
    options = {coupling: "model", "bits": "2,4,8,16", "average_bits": 5}
    shared = made(wide_table(), used_trace(), **options)
    assert all(layer.loss_scale is None for layer in shared.layers)
    table = wide_table().losses
    for layer, losses in zip(shared.layers, table, strict=True):
        for expert, row in zip(layer.experts, losses, strict=True):
            exact = row / 8 / shared.loss_scale
            assert np.abs(np.array(expert.loss) - exact).max() <= 1
    own = made(wide_table(), used_trace(), bits="2,4,8,16", average_bits=5)
    assert len({layer.loss_scale for layer in own.layers}) == 32
    assert {max(e.loss[0] for e in layer.experts) for layer in own.layers} == {10**10}


def test_a_loss_above_zero_is_never_rounded_to_zero() -> None:
    """And zero stays zero; with the table's unit nearly all of 8 bits and more were 0."""
    table = wide_table()
    table.losses[3, 2, 3] = 0.0
    options = {"bits": "2,4,8,16", "average_bits": 5, "budget": "model"}
    rounded, before = (
        np.array([[e.loss for e in layer.experts] for layer in made(
            table, used_trace(), scale=scale, **options
        ).layers])
        for scale in ("own", "table")
    )  # fmt: skip
    assert ((rounded == 0) == (table.losses == 0)).all()
    assert (before[:, :, 2] == 0).mean() > 0.5
    assert (before[:, :, 3] == 0).mean() > 0.9


@pytest.mark.parametrize("budget", ["layer", "model"])
def test_what_rounding_can_change_is_bounded(budget: str) -> None:
    """The optimum of the integers is within `loss_error` of the optimum of the table.

    The latter is bounded from below by the optimum of integers a thousand times as fine, all
    rounded down.
    """
    options = {"bits": "2,4,8,16", "average_bits": 5, "budget": budget}
    for seed in range(3):
        table = wide_table(seed)
        instance = made(table, used_trace(), **options)
        plan = moeopt.solve(instance, "dp")
        assert isinstance(plan.solution, Solution)
        assert instance.loss_error > 0
        scales = [layer.loss_scale or instance.loss_scale for layer in instance.layers]
        exact = table.losses / 8 / np.array(scales)[:, None, None]
        finer = Instance.from_arrays(
            loss=np.floor(exact * 100).astype(np.int64),
            bits=table.bits,
            budget_bits=40 if budget == "layer" else None,
            model_budget_bits=32 * 40 if budget == "model" else None,
            name="finer",
        )
        least = moeopt.solve(finer, "dp").objective
        columns = np.array([[table.bits.index(w or 0) for w in row] for row in plan.solution.bits])
        found = np.take_along_axis(exact, columns[:, :, None], axis=2).sum()
        assert found <= least / 100 + instance.loss_error
        facts = view.facts(instance, plan.solution)
        assert facts["rounding_error"] == instance.loss_error
        assert float(str(facts["rounding_share"]).split()[0]) < 0.1


def test_random_losses_do_not_hang_on_the_last_bits() -> None:
    """Tables that differ by a relative 1e-15, as those of two machines do: all alike."""
    losses = np.random.default_rng(0).lognormal(sigma=5, size=1000)
    short = rounded(losses, 20)
    assert np.abs(short / losses - 1).max() < 2**-20
    assert (rounded(losses * (1 + 1e-15), 20) == short).all()
    assert (rounded(np.array([0.0, 1.0, 2.0**-1074]), 20) == [0.0, 1.0, 2.0**-1074]).all()


def test_the_older_unit_is_still_there() -> None:
    """10^-7 of the table's largest entry, whatever it counts: schema 1, and nothing is stated."""
    instance = made(scale="table")
    assert (instance.schema_version, instance.loss_error) == (1, 0)
    assert instance.loss_scale == TABLE.losses.max() / 10**7
    expected = [round(loss / 2 / instance.loss_scale) for loss in TABLE.losses[0, 7]]
    assert list(instance.layers[0].experts[7].loss) == expected
    assert view.facts(instance, moeopt.solve(instance, "dp").solution) == {}
    assert "scale" not in instance.provenance["options"]


def test_the_decoded_tokens_weigh_a_hold_out() -> None:
    """Same experts, order, budgets and scale; other losses, so a plan costs something else."""
    inside, outside = made(gpu_experts=2), made(gpu_experts=2, phase="decode")
    for one, other in zip(inside.layers, outside.layers, strict=True):
        assert one.loss_scale == other.loss_scale
        assert one.budget_bits == other.budget_bits
        assert [(e.expert, e.importance) for e in one.experts] == [
            (e.expert, e.importance) for e in other.experts
        ]
    plan = moeopt.solve(inside, "dp").solution
    best = moeopt.solve(outside, "dp").objective
    assert objective(outside, plan) > best  # type: ignore[arg-type, operator]


def test_counts_widths_and_granularity_go_into_the_instance() -> None:
    """As they are asked for."""
    instance = made(bits="2,4", min_count="4:2,2:1", granularity="layer", average_bits=3)
    assert (instance.bits, instance.min_count) == ((2, 4), {4: 2, 2: 1})
    assert instance.granularity == "layer"
    assert len(instance.layers[0].experts[7].loss) == 2


@pytest.mark.parametrize("name", ["table.json", "table.csv"])
def test_a_table_file_is_used_and_named(name: str, tmp_path: Path) -> None:
    """Written and read again, the losses are the same; the provenance says whose they are."""
    save_table(tmp_path / name)
    instance = made(None, loss_table=tmp_path / name)
    assert instance.layers == made().layers
    assert instance.provenance["losses"]["name"] == f"{tmp_path.name}/{name}"
    assert str(tmp_path) not in str(instance.provenance)
    options = instance.provenance["options"]
    assert (options["losses"], options["loss_table"]) == (None, name)
    assert "-table-usage-" in instance.name
    assert "fitted" not in instance.name + str(instance.provenance)


def test_a_table_needs_no_trace_where_nothing_is_taken_from_one(tmp_path: Path) -> None:
    """All experts are alike then; usage and experts on the GPU need to be known from somewhere."""
    save_table(tmp_path / "measured.json")
    common = {"machine": "cxl-ndp", "model": "mixtral-8x7b"}
    table = {"loss_table": tmp_path / "measured.json"}
    instance = moeopt.generate("bitwidth", **common, **table, weight="none", layers=2)
    assert instance.layers[0].loss_scale == made(weight="none").layers[0].loss_scale
    assert {e.importance for layer in instance.layers for e in layer.experts} == {0}
    assert instance.provenance["trace"] is None
    assert instance.name == "mixtral-8x7b-2.5bits-per-layer-measured-none-prefill-seed0"
    assert moeopt.solve(instance, "prefix-split").status == "feasible"
    for options, says in (
        ({}, "weight: usage needs a trace or a workload"),
        ({"weight": "none", "gpu_experts": 2}, "gpu_experts: 2 needs a trace or a workload"),
        ({"weight": "none", "layers": 33}, "layers: mixtral-8x7b has 32, not 33"),
    ):
        with pytest.raises(InputError, match=says):
            moeopt.generate("bitwidth", **common, **table, **options)


def test_a_budget_is_rounded_down_and_importance_has_shares_of_the_layer() -> None:
    """A budget of 2.51 bits for eight experts, and counts and scores over their sums."""
    assert made(average_bits=2.51).layers[0].budget_bits == 20
    ids = mixtral_trace().topk_ids
    scored = Trace("scored", ids, np.where(ids == 3, 0.75, 0.25).astype(np.float32))
    # Counts 0 1 0 2 0 0 0 4 and scores 0 1/4 0 3/2 0 0 0 1, less what comes after the prompt.
    importance = {e.expert: e.importance for e in made(trace=scored).layers[0].experts}
    assert importance[7] == round(1e6 * (4 / 8 + 1 / 3) / 2)


def test_a_workloads_instance_is_made_again_under_another_assumption() -> None:
    """From its provenance alone; one of a real trace is not."""
    common = {"machine": "cxl-ndp", "model": "mixtral-8x7b", "losses": "convex", "layers": 2}
    first = moeopt.generate("bitwidth", workload="hdmoe-mixtral", name="x", **common)
    other = moeopt.generate("bitwidth", workload="hdmoe-mixtral", weight="none", name="x", **common)
    assert assume(first, "weight", "none") == other
    assert assume(first, "weight", "usage") == first
    assert assume(first, "seed", "1") is None
    assert assume(made(), "weight", "none") is None
    with pytest.raises(InputError, match="weight"):
        assume(first, "weight", "some")


@pytest.mark.slow
def test_the_librarys_are_made_again_under_another_assumption(root: Path) -> None:
    """From what their provenance says."""
    file = root / "instances" / "bitwidth" / "convex" / "convex-deepseek-v2-lite-per-layer.json.gz"
    instance = moeopt.load(file)
    found = assume(instance, "weight", "none")
    assert found.schema_version == instance.schema_version
    assert found != instance


@pytest.mark.parametrize("losses", ["fitted", "convex"])
def test_the_same_seed_gives_the_same_bytes(losses: str, tmp_path: Path) -> None:
    """And another seed other losses."""
    paths = [tmp_path / name for name in "abc"]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        instance = moeopt.generate(
            "bitwidth",
            machine="cxl-ndp",
            model="deepseek-v2-lite",
            workload="trimoe-skew",
            layers=2,
            losses=losses,
            seed=seed,
            name="same",
        )
        moeopt.save(instance, path)
    one, same, other = (path.read_bytes() for path in paths)
    assert one == same != other


@pytest.mark.parametrize(
    "machines", [names("machines")[:1], pytest.param(names("machines"), marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("model", names("models"))
def test_every_model_and_machine_has_an_instance(model: str, machines: list[str]) -> None:
    """One layer each; dp proves it."""
    for machine in machines:
        instance = moeopt.generate(
            "bitwidth",
            machine=machine,
            model=model,
            workload="trimoe-skew",
            layers=1,
            tokens=64,
            losses="convex",
        )
        assert len(instance.layers[0].experts) == get_model(model).routed_experts
    assert moeopt.solve(instance, "dp").status == "optimal"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gpu_experts": 8}, "gpu_experts: must leave some of 8 experts, not all"),
        ({"layers": 33}, "layers: hand has 32, not 33"),
        ({"bits": "1,two"}, "bits: must be whole numbers, comma-separated, not '1,two'"),
        ({"bits": "1,8"}, "by hand: bits: 8 is missing; there: 1, 2, 3, 4"),
        ({"min_count": "3"}, "min_count: must be WIDTH:COUNT, comma-separated, not '3'"),
        ({"min_count": "3:1,3:2"}, "min_count: must be WIDTH:COUNT"),
        ({"sequence": 1}, "sequence: must be below 1, not 1"),
        ({"loss_table": Path("nowhere.json"), "table": None}, "nowhere.json: cannot be read"),
    ],
)
def test_what_does_not_fit_is_named(options: dict[str, Any], says: str) -> None:
    """Option and reason."""
    assert refused(made, **options).startswith(says)


def test_a_table_of_another_model_is_refused() -> None:
    """Too few layers, or other experts."""
    short = LossTable("short", TABLE.bits, TABLE.losses[:31])
    with pytest.raises(InputError, match="short: loss: \\(31, 8\\) layers and experts, where"):
        made(short)
    assert made(short, layers=31).layers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ('{"bits": [1]}', "loss: is missing"),
        ('{"bits": [1], "loss": [[[1]]], "other": 1}', '"other": is not a known key'),
        ('{"bits": [2, 1], "loss": [[[1, 2]]]}', "bits[1]: must rise"),
        ('{"bits": [1.5], "loss": [[[1]]]}', "bits[0]: must be an integer from 1 to 64"),
        ('{"bits": [], "loss": [[[1]]]}', "bits: must be a list of 1 to 16 widths"),
        ('{"bits": [1], "loss": [[[1, 2]]]}', "loss: 2 widths, and 1 in bits"),
        ('{"bits": [1], "loss": [[[-1]]]}', "loss[0][0][0]: must be finite and not negative"),
        ('{"bits": [1], "loss": [[["1"]]]}', "loss: must be numbers [layer, expert, width]"),
        ('{"bits": [1], "loss": [[[1]], [[1], [1]]]}', "loss: layers and experts must be of equal"),
        ('{"bits": [1], "loss": []}', "loss: must be numbers [layer, expert, width]"),
        ('{"bits": [1], "loss": [[[1]]], "facts": 3}', "facts: must be an object"),
    ],
)
def test_untrusted_tables_are_checked(text: str, says: str, tmp_path: Path) -> None:
    """File, field and reason."""
    path = tmp_path / "table.json"
    path.write_text(text)
    assert refused(load_loss_table, path).startswith(f"{path}: {says}")


def test_arrays_are_checked_as_well() -> None:
    """NaN, and losses that are no numbers."""
    with pytest.raises(InputError, match="must be finite and not negative"):
        checked_table("t", [1], np.array([[[np.nan]]]))
    with pytest.raises(InputError, match="must be numbers"):
        checked_table("t", [1], np.array([[["x"]]]))


def test_the_command_generates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`moeopt generate bitwidth` with its own options, to a file that solves."""
    common = ["--model", "mixtral-8x7b", "--workload", "hdmoe-mixtral"]
    own = ["--budget", "model", "--average-bits", "2", "--min-count", "3:1", "--layers", "2"]
    out = tmp_path / "made.json"
    assert run(["generate", "bitwidth", *common, *own, "--out", str(out)]) == 0
    assert run(["solve", str(out), "--method", "dp"]) == 0
    shown = capsys.readouterr().out
    assert "optimal" in shown
    assert "precision  losses are rounded; by the table an optimum is within " in shown
