"""bitwidth instances: budgets, residents, orders, losses and phases, and every preset."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt.cli.main import run
from moeopt.errors import InputError
from moeopt.problems.bitwidth.check import objective
from moeopt.problems.bitwidth.instance import Instance
from moeopt.sim.generators.bitwidth import Options, generate
from moeopt.sim.loss_table import LossTable, checked_table, read_loss_table, save_loss_table
from moeopt.sim.presets import get_machine, get_model, names
from moeopt.sim.source import Source
from moeopt.sim.trace import Trace

TABLE = LossTable(
    "by hand", (1, 2, 3, 4), np.arange(32 * 8 * 4, 0, -1).reshape(32, 8, 4).astype(float)
)


def mixtral_trace() -> Trace:
    """Return eight tokens: the prompt, tokens 0 to 3, likes expert 7; later ones like expert 0."""
    ids = np.array([[7, 3], [7, 3], [7, 1], [2, 7], [0, 1], [0, 2], [0, 3], [0, 4]])
    return Trace("hand", np.repeat(ids[:, None, :], 32, axis=1))


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
    scale = TABLE.losses.max() / 10**7
    assert instance.loss_scale == scale
    expected = [round(loss / 2 / scale) for loss in TABLE.losses[0, 7]]
    assert list(layer.experts[7].loss) == expected


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
    scale = instance.loss_scale
    expected = np.rint(TABLE.losses / 8 / scale).astype(int)
    found = [[list(e.loss) for e in layer.experts] for layer in instance.layers]
    assert found == expected.tolist()


def test_the_decoded_tokens_weigh_a_hold_out() -> None:
    """Same experts, order, budgets and scale; other losses, so a plan costs something else."""
    inside, outside = made(gpu_experts=2), made(gpu_experts=2, phase="decode")
    assert inside.loss_scale == outside.loss_scale
    for one, other in zip(inside.layers, outside.layers, strict=True):
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


def test_a_table_file_is_used_and_named(tmp_path: Path) -> None:
    """Written and read again, the losses are the same; the provenance says whose they are."""
    save_loss_table(TABLE, tmp_path / "table.json")
    instance = made(None, loss_table=tmp_path / "table.json")
    assert instance.layers == made().layers
    assert instance.provenance is not None
    assert instance.provenance["losses"]["name"] == "table.json"
    assert str(tmp_path) not in str(instance.provenance)


@pytest.mark.parametrize("losses", ["gptq", "rtn", "convex"])
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


@pytest.mark.parametrize("model", names("models"))
def test_every_model_and_machine_has_an_instance(model: str) -> None:
    """One layer each; dp proves it."""
    for machine in names("machines"):
        instance = moeopt.generate(
            "bitwidth",
            machine=machine,
            model=model,
            workload="trimoe-skew",
            layers=1,
            tokens=64,
            losses="convex",
        )
        assert isinstance(instance, Instance)
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
    with pytest.raises(InputError) as caught:
        made(**options)
    assert str(caught.value).startswith(says)


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
    with pytest.raises(InputError) as caught:
        read_loss_table(path)
    assert str(caught.value).startswith(f"{path}: {says}")
    assert str(caught.value).isprintable()


def test_arrays_are_checked_as_well() -> None:
    """NaN, and losses that are no numbers."""
    with pytest.raises(InputError, match="must be finite and not negative"):
        checked_table("t", [1], np.array([[[np.nan]]]))
    with pytest.raises(InputError, match="must be numbers"):
        checked_table("t", [1], np.array([[["x"]]]))


def test_the_command_generates(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """`moeopt generate bitwidth` with its own options, to a file that solves."""
    common = ["--machine", "cxl-ndp", "--model", "mixtral-8x7b", "--workload", "hdmoe-mixtral"]
    own = ["--budget", "model", "--average-bits", "2", "--min-count", "3:1", "--layers", "2"]
    out = tmp_path / "made.json"
    assert run(["generate", "bitwidth", *common, *own, "--out", str(out)]) == 0
    assert run(["solve", str(out), "--method", "dp"]) == 0
    assert "optimal" in capsys.readouterr().out
