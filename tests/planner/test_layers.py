"""Plans that need no counts."""

import json

import pytest

import moeopt
from moeopt import InputError, get_machine
from tests.rooms.cli import run
from tests.rooms.planner import PlanOptions, plan_layers
from tests.rooms.planner import layers_page as page
from tests.rooms.sim import get_model

COMMAND = "plan --machine rtx4090+ryzen-am5 --model glm-4.5-air --bits Q4_K_M --context 16k"


def test_whole_layers_as_predict_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The same blocks and speed as `predict`; one line on what counting could bring."""
    assert run(COMMAND.split()) == 0
    said = capsys.readouterr().out
    model = get_model("glm-4.5-air")
    found = plan_layers(
        get_machine("rtx4090+ryzen-am5"), model, PlanOptions(bits="Q4_K_M", context=16384)
    )
    alone = moeopt.predict("rtx4090+ryzen-am5", "glm-4.5-air", bits="Q4_K_M", context=16384)
    assert found.chosen.n_cpu_moe == alone.n_cpu_moe
    assert found.chosen.tokens_per_s == alone.tokens_per_s
    assert said.strip() == page(found)
    assert said.count("counting which experts are hot") == 1
    assert found.counting is not None
    assert found.counting[0] >= found.chosen.tokens_per_s * 0.9
    rows = found.plan.resident or ()
    assert [bool(row) for row in rows] == [n >= (alone.n_cpu_moe or 0) for n in model.moe_layers]


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    """A cache that is asked for is the only one; what cannot fit is refused; others need counts."""
    assert run([*COMMAND.split(), "--kv-bits", "q4_0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {one["kv_bits"] for one in data["settings"]} == {4.5}
    machine, model = get_machine("rtx4090+ryzen-am5"), get_model("deepseek-v3")
    with pytest.raises(moeopt.InfeasibleError):
        plan_layers(
            moeopt.set_machine(machine, {"dram.capacity_gib": 64}),
            model,
            PlanOptions(bits="Q4_K_M"),
        )
    with pytest.raises(InputError, match="without counts plans are for"):
        plan_layers(machine, model, PlanOptions(runtime="ktransformers"))
