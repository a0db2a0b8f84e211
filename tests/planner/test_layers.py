"""Plans that need no counts."""

import json

import pytest

import moeopt
from moeopt import InputError, get_machine
from tests.rooms.cli import run
from tests.rooms.planner import PlanOptions, SeveralOptions, plan_layers
from tests.rooms.sim import get_model

COMMAND = "plan --machine rtx4090+ryzen-am5 --model glm-4.5-air --bits Q4_K_M --context 16k"


def test_whole_layers_as_predict_has_them(capsys: pytest.CaptureFixture[str]) -> None:
    """The same blocks and speed as `predict`; one line on counting."""
    assert run(COMMAND.split()) == 0
    said = capsys.readouterr().out
    model = get_model("glm-4.5-air")
    found = moeopt.plan("rtx4090+ryzen-am5", model, bits="Q4_K_M", context=16384)
    asked = {"bits": "Q4_K_M", "context": 16384, "kv_bits": found.best.setting.kv[0]}
    ubatch = found.best.setting.ubatch
    alone = moeopt.predict("rtx4090+ryzen-am5", "glm-4.5-air", ubatch=ubatch, **asked)
    assert found.more["n_cpu_moe"] == alone.n_cpu_moe
    assert found.tokens_per_s == alone.tokens_per_s
    assert found.command == alone.command
    assert said.strip() == str(found)
    assert said.count("counting which are hot") == 1
    rows = found.best.decision.resident or ()
    assert [bool(row) for row in rows] == [n >= (alone.n_cpu_moe or 0) for n in model.moe_layers]


def test_options(capsys: pytest.CaptureFixture[str]) -> None:
    """A cache that is asked for is the only one; what cannot fit is refused; others need counts."""
    assert run([*COMMAND.split(), "--kv-bits", "q4_0", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert {one["kv_bits"] for one in data["rows"]} == {4.5}
    machine, model = get_machine("rtx4090+ryzen-am5"), get_model("deepseek-v3")
    with pytest.raises(moeopt.InfeasibleError):
        plan_layers(
            moeopt.set_machine(machine, {"dram.capacity_gib": 64}),
            model,
            PlanOptions(bits="Q2_K"),
            SeveralOptions(),
        )
    with pytest.raises(InputError, match="without counts plans are for"):
        plan_layers(machine, model, PlanOptions(runtime="ktransformers"), SeveralOptions())


@pytest.mark.parametrize(
    "machine", ["rtx5090+ryzen-am5", pytest.param("rtx4090+epyc-9004", marks=pytest.mark.slow)]
)
def test_the_goal_decides_the_row(machine: str) -> None:
    """Decoding alone, or a long prompt; of equal speeds the one that reads prompts fastest."""
    alone = moeopt.plan(machine, "gpt-oss-120b", bits="MXFP4")
    decoding = [row.speeds[0].decode for row in alone.rows]
    assert decoding == sorted(decoding, reverse=True)
    for row in alone.rows:
        if row.speeds[0].decode == decoding[0]:
            assert row.speeds[0].prompt <= alone.best.speeds[0].prompt
    request = SeveralOptions(prompt_tokens=30_000, reply_tokens=100)
    reading = moeopt.plan(machine, "gpt-oss-120b", bits="MXFP4", several=request)
    assert [row.score for row in reading.rows] == sorted(row.score for row in reading.rows)
    speed = reading.best.speeds[0]
    assert reading.best.score == pytest.approx(30_000 / speed.prompt + 100 / speed.decode)
    assert reading.best.setting.ubatch == 2048
    assert speed.depth == 30_050


def test_a_ubatch_that_is_asked_for_is_the_only_one() -> None:
    """And the command has the model's file."""
    asked = SeveralOptions(ubatch=1024, path="a.gguf")
    found = moeopt.plan("rtx4090+epyc-9004", "glm-4.5-air", bits="Q4_K_M", several=asked)
    assert {row.setting.ubatch for row in found.rows} == {1024}
    assert "-m a.gguf" in found.command


@pytest.mark.parametrize(
    "machine",
    ["rtx5090+ryzen-am5", pytest.param("2xrtx3090+epyc-7002", marks=pytest.mark.slow)],
)
def test_gpt_oss_is_what_is_published(machine: str) -> None:
    """Without bits its files are in MXFP4: the same speed and command, and a note."""
    limit = {"work_limit": 1.0} if "2x" in machine else {}
    for ask, more in ((moeopt.predict, {}), (moeopt.plan, limit)):
        unsaid, said = (ask(machine, "gpt-oss-120b", **bits, **more) for bits in ({}, MXFP4))
        assert unsaid.tokens_per_s == said.tokens_per_s
        assert unsaid.command == said.command
        assert "QUANT" not in unsaid.command
        assert {*unsaid.notes} - {*said.notes} == {
            "gpt-oss-120b: no bits are asked for: as its files are published, --bits MXFP4"
        }


MXFP4 = {"bits": "MXFP4"}
