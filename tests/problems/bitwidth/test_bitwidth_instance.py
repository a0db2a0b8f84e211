"""The instance file of bitwidth: what is allowed, and what is refused with which words."""

from typing import Any

import pytest

import moeopt
from moeopt import InputError, save
from tests.mathprog.solve import solve
from tests.refusals import refused
from tests.rooms.bitwidth import Instance, frontier

EXPERT = {"expert": 0, "importance": 731, "loss": [9, 5, 2, 1]}
OTHER = {"expert": 3, "importance": 0, "loss": [0, 0, 7, 0]}
DATA: dict[str, Any] = {
    "problem": "bitwidth",
    "schema_version": 1,
    "name": "b",
    "bits": [1, 2, 3, 4],
    "loss_scale": 1e-9,
    "granularity": "expert",
    "min_count": {"3": 1},
    "layers": [{"budget_bits": 12, "experts": [EXPERT, OTHER]}],
    "model_budget_bits": None,
}


def changed_expert(**change: Any) -> dict[str, Any]:
    """Return a change of the second expert."""
    return {"layers": [{"budget_bits": 12, "experts": [EXPERT, OTHER | change]}]}


def test_a_file_is_read_and_written_as_it_is(tmp_path: Any) -> None:
    """The design's example; its counts keep strings as keys in the file."""
    save(DATA, tmp_path / "b.json")
    instance = moeopt.load(tmp_path / "b.json")
    assert isinstance(instance, Instance)
    assert instance.min_count == {3: 1}
    assert instance.loss_scale == 1e-9
    moeopt.save(instance, tmp_path / "again.json")
    assert moeopt.load(tmp_path / "again.json") == instance
    assert '"min_count": {"3": 1}' in (tmp_path / "again.json").read_text()


def test_the_models_budget_stands_instead_of_the_layers(tmp_path: Any) -> None:
    """Layers' budgets may then be null, and do not hold where they are not."""
    for layer_budget in (None, 2):
        layers = [{"budget_bits": layer_budget, "experts": [EXPERT, OTHER]}]
        instance = Instance(**(DATA | {"layers": layers, "model_budget_bits": 8, "min_count": {}}))
        assert instance.layer_budgets == (None,)
        assert moeopt.solve(instance, "dp").objective == 1


def of_schema_2(number: int, **given: Any) -> dict[str, Any]:
    """Return a change to schema 2 and two layers, the `number`-th of which has fields of it."""
    layers = [{"budget_bits": 12, "experts": [EXPERT, OTHER]} for _ in range(2)]
    layers[number] |= given
    return {"schema_version": 2, "layers": layers}


def test_layers_may_have_units_of_their_own(tmp_path: Any) -> None:
    """Schema 2; read and written as they are, and absent ones are not written."""
    first, second = (of_schema_2(0, loss_scale=s, loss_error=3)["layers"][0] for s in (1e-9, 2e-3))
    instance = Instance(**(DATA | {"schema_version": 2, "layers": [first, second]}))
    assert instance.loss_error == 6
    moeopt.save(instance, tmp_path / "two.json")
    assert moeopt.load(tmp_path / "two.json") == instance
    results = {m: solve(instance, m).objective for m in ("dp", "cp-sat", "milp", "mathprog")}
    assert set(results.values()) == {2 + 2}
    with pytest.raises(InputError, match="units of each layer do not add up"):
        frontier(instance)
    moeopt.save(Instance(**DATA), tmp_path / "one.json")
    text = (tmp_path / "one.json").read_text()
    assert "loss_error" not in text
    assert text.count("loss_scale") == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (of_schema_2(0, loss_scale=1.0), "layers[1].loss_scale: stands in some layers only"),
        (of_schema_2(1, loss_scale=0.0), "layers[1].loss_scale: must be more than 0.0, not 0.0"),
        (of_schema_2(1, loss_error=-1), "layers[1].loss_error: must be at least 0"),
        (of_schema_2(1, loss_error=0.5), "layers[1].loss_error: must be an integer"),
        ({"schema_version": 3}, "schema_version: "),
        *(
            (
                {
                    "schema_version": 2,
                    "min_count": {},
                    "layers": [{"budget_bits": 12, "experts": [EXPERT], "loss_scale": 1.0}],
                    field: value,
                },
                "layers[0].loss_scale: must be absent: layers that share",
            )
            for field, value in (("model_budget_bits", 9), ("granularity", "model"))
        ),
        ({"bits": []}, "bits: "),
        ({"bits": [1, 2, 2, 3]}, "bits[2]: must rise: 2 comes after 2"),
        ({"bits": [2, 1, 3, 4]}, "bits[1]: must rise: 1 comes after 2"),
        ({"bits": [0, 1, 2, 3]}, "bits[0]: must be at least 1, not 0"),
        ({"bits": [1, 2, 3, 65]}, "bits[3]: must be at most 64, not 65"),
        ({"bits": [1, 2, 3.0, 4]}, "bits[2]: must be an integer, not 3.0"),
        ({"loss_scale": 0.0}, "loss_scale: "),
        ({"loss_scale": -1e-9}, "loss_scale: "),
        ({"loss_scale": "1"}, "loss_scale: "),
        ({"loss_scale": True}, "loss_scale: "),
        ({"granularity": "token"}, "granularity: must be 'expert', 'layer' or 'model'"),
        ({"min_count": {"5": 1}}, "min_count: 5 is none of the widths in bits"),
        ({"min_count": {"03": 1}}, 'min_count: "03" is not a width'),
        ({"min_count": {"3.0": 1}}, 'min_count: "3.0" is not a width'),
        ({"min_count": {"{3}": 1}}, 'min_count: "(3)" is not a width'),
        ({"min_count": {"3": -1}}, "min_count"),
        ({"min_count": {"3": 0.5}}, "min_count"),
        ({"min_count": [3]}, "min_count: must be an object"),
        (
            changed_expert(loss=[1, 2, 3]),
            "layers[0].experts[1].loss: must have one entry per width",
        ),
        (changed_expert(loss=[1, 2, 3, 0.5]), "layers[0].experts[1].loss[3]: must be an integer"),
        (changed_expert(loss=[1, 2, 3, -1]), "layers[0].experts[1].loss[3]: must be at least 0"),
        (changed_expert(loss=[1, 2, 3, 2**42 + 1]), "loss[3]: must be at most 4398046511104"),
        (changed_expert(expert=0), "layers[0].experts[1].expert: 0 stands already in experts[0]"),
        (changed_expert(importance=0.1), "layers[0].experts[1].importance: must be an integer"),
        (changed_expert(width=1), "layers[0].experts[1].width: is not a known key"),
        ({"layers": []}, "layers: "),
        ({"layers": [{"budget_bits": 1, "experts": []}]}, "layers[0].experts: "),
        (
            {"layers": [{"budget_bits": None, "experts": [EXPERT]}]},
            "layers[0].budget_bits: must be an integer where model_budget_bits is null",
        ),
        ({"layers": [{"experts": [EXPERT]}]}, "layers[0].budget_bits: must be an integer where"),
        ({"model_budget_bits": -1}, "model_budget_bits: must be at least 0, not -1"),
        ({"budget": 1}, "budget: is not a known key"),
    ],
)
def test_what_is_wrong_is_named(change: dict[str, Any], says: str, tmp_path: Any) -> None:
    """Field and reason, on one line."""
    save(DATA | change, tmp_path / "b.json")
    assert says in refused(moeopt.load, tmp_path / "b.json")


def test_only_the_loss_scale_may_be_a_float(tmp_path: Any) -> None:
    """NaN and infinity are refused by the reader, here as everywhere."""
    for text in ("NaN", "Infinity", "1e999"):
        (tmp_path / "b.json").write_text(
            '{"problem": "bitwidth", "schema_version": 1, "loss_scale": ' + text + "}"
        )
        with pytest.raises(InputError, match="loss_scale: must be a number of usable size"):
            moeopt.load(tmp_path / "b.json")


def test_the_largest_losses_are_summed_exactly() -> None:
    """Two layers of 2**42 and less: dp and the checker agree; CP-SAT says no at 2**60."""
    top = 2**42
    experts = [
        {"expert": e, "importance": 0, "loss": [top, top - e, top - 3 * e - 1, 0]} for e in range(9)
    ]
    layers = [{"budget_bits": None, "experts": experts}] * 2
    instance = Instance(**(DATA | {"layers": layers, "model_budget_bits": 45, "min_count": {}}))
    result = moeopt.solve(instance, "dp")
    assert result.status == "optimal"
    # 27 increments over 18 experts: nine of them at no loss, the others at their worst.
    assert result.objective == 9 * top
    many = [{"expert": e, "importance": 0, "loss": [top, top, top, top]} for e in range(4096)]
    wide = {"layers": [{"experts": many}] * 17, "model_budget_bits": 17 * 2**14, "min_count": {}}
    with pytest.raises(InputError, match="sum to more than 2\\*\\*60"):
        moeopt.solve(Instance(**(DATA | wide)), "cp-sat", warm_start=False)


@pytest.mark.parametrize("method", ["cp-sat", pytest.param("milp", marks=pytest.mark.slow)])
def test_sums_beyond_exact_doubles(method: str) -> None:
    """Losses that sum to an odd number above 2**53: exact from CP-SAT, nothing false from HiGHS."""
    top = 2**42 - 1
    experts = [
        {"expert": e, "importance": 0, "loss": [top, top - e % 2, top - 2, top - 4]}
        for e in range(2_053)
    ]
    layers = [{"budget_bits": 2 * len(experts), "experts": experts}]
    changes = {"layers": layers, "min_count": {}, "granularity": "layer"}
    instance = Instance(**(DATA | {"bits": [1, 2, 3, 4]} | changes))
    optimum = 2_053 * top - 1_026  # two bits for all
    assert optimum > 2**53
    assert optimum % 2
    assert moeopt.solve(instance, "dp").objective == optimum
    result = moeopt.solve(instance, method, warm_start=method != "cp-sat")
    if method == "cp-sat":
        assert (result.status, result.objective, result.bound) == ("optimal", optimum, optimum)
    assert result.bound is None or result.bound <= optimum  # type: ignore[operator]
    assert result.objective is not None
    assert result.objective >= optimum
