"""Widths are executed: what is read, how long that takes, and what it loses."""

import json
from pathlib import Path

import numpy as np
import pytest

import moeopt
from moeopt import InputError, get_machine, simulate
from tests.problems.bitwidth.bitwidth_random_instances import random_instance
from tests.raising_cli import call
from tests.rooms.bitwidth import HEURISTICS, Instance, Solution, check
from tests.rooms.planner import plan_of_widths
from tests.rooms.problems import compare
from tests.rooms.sim import Trace, get_model

CXL, MIXTRAL = get_machine("cxl-ndp"), get_model("mixtral-8x7b")

BIT_NS = 43_008
"""A bit of each of Mixtral's 3 x 4096 x 14336 weights of an expert, at 512 GB/s (Table 2)."""


def two_layers() -> tuple[Instance, Solution]:
    """Return experts 2 to 7 of two of Mixtral's layers, and widths; 0 and 1 are on the GPU."""
    experts = [
        {"expert": e, "importance": 0, "loss": [40 * e, 10 * e, e]} for e in (7, 2, 3, 4, 5, 6)
    ]
    layer = {"budget_bits": 20, "experts": experts}
    made = Instance.model_validate({"name": "two", "bits": [2, 3, 4], "layers": [layer] * 2})
    widths = ((4, 2, 4, 3, 3, 2), (2, 4, 3, 2, 2, 2))
    return made, Solution(instance="two", bits=widths)


def test_a_layer_takes_as_many_ns_as_its_widths_have_bits() -> None:
    """By hand: 18 and 15 bits; the losses at those widths; one task per expert, in turn."""
    instance, solution = two_layers()
    compared = compare(instance, solution)
    first = 7 * 1 + 2 * 40 + 3 * 1 + 4 * 10 + 5 * 10 + 6 * 40
    second = 7 * 40 + 2 * 1 + 3 * 10 + 4 * 40 + 5 * 40 + 6 * 40
    assert compared.measured == compared.judged == first + second
    timeline = compared.timeline
    assert timeline.end_ns[:12].tolist() == [4, 6, 10, 13, 16, 18, 20, 24, 27, 29, 31, 33]
    assert timeline.makespan_ns == 18 + 15 + first + second
    assert [timeline.name(task) for task in (0, 7)] == ["4 bits, expert 7", "4 bits, expert 2"]
    assert [used.busy_ns for used in timeline.usage()] == [18 + 15, first + second]


@pytest.mark.parametrize("name", HEURISTICS)
def test_random_widths_run_as_checked(name: str) -> None:
    """Whatever is valid; the run never exceeds the budgets."""
    ran = 0
    for seed in range(12):
        instance = random_instance(seed)
        solution = HEURISTICS[name](instance)
        if solution is None or check.violations(instance, solution):
            continue
        compared = compare(instance, solution)
        assert compared.agree
        budgets = [budget or 0 for budget in instance.layer_budgets]
        read_ns = compared.timeline.usage()[0].busy_ns
        assert read_ns <= (instance.model_budget_bits or sum(budgets))
        ran += 1
    assert ran > 3


def test_a_decode_step_reads_the_widths() -> None:
    """One token, two experts per layer: on the GPU, or so many bits on the one NDP device."""
    instance, solution = two_layers()
    plan = plan_of_widths(instance, solution, CXL, MIXTRAL)

    def layers_ns(first: list[int], second: list[int]) -> list[int]:
        trace = Trace("one", np.array([[first, second]]))
        ran = simulate(plan, CXL, MIXTRAL, trace, quantum_ns=1, attention_ns=0)
        return [int(length) for length in ran.layer_ns[0]]

    assert layers_ns([7, 2], [7, 2]) == [6 * BIT_NS, 6 * BIT_NS]
    assert layers_ns([3, 4], [5, 6]) == [7 * BIT_NS, 4 * BIT_NS]
    wide = simulate(
        plan_of_widths(instance, solution, CXL, MIXTRAL.quantized(4)), CXL, MIXTRAL.quantized(4),
        Trace("one", np.array([[[0, 1], [0, 7]]])), quantum_ns=1,
    )  # fmt: skip
    assert wide.experts_run == {"gpu": 3, "cpu": 0, "ndp": 1}
    sixteen = layers_ns([0, 1], [0, 7])
    # The GPU's own experts keep the model's width, and read from its memory: four times as much.
    assert sixteen[0] == pytest.approx(4 * int(wide.layer_ns[0, 0]), rel=1e-3)


def test_without_ndp_the_cpu_reads_them() -> None:
    """A quarter of the bits in a quarter of the time, where memory is the bound."""
    host = get_machine("trimoe").require("cpu")
    host = host.model_copy(update={"computes": (host.only("cpu"),)})
    machine = get_machine("trimoe").with_devices(host)
    instance, _ = two_layers()
    free = instance.model_copy(
        update={"bits": (4, 16), "layers": instance.layers[:1], "min_count": {}}
    )
    steps = []
    for width in (4, 16):
        widths = Solution(instance="two", bits=((width,) * 6,))
        plan = plan_of_widths(free, widths, machine, MIXTRAL)
        trace = Trace("one", np.array([[[2, 3]]]))
        ran = simulate(plan, machine, MIXTRAL, trace, quantum_ns=1, runtime="machine")
        assert ran.experts_run == {"gpu": 0, "cpu": 2, "ndp": 0}
        steps.append(int(ran.step_ns[0]))
    assert 4 * steps[0] == pytest.approx(steps[1], rel=1e-3)


def test_what_does_not_fit_is_said() -> None:
    """An expert or a layer that the model has not."""
    instance, solution = two_layers()
    small = MIXTRAL.model_copy(update={"routed_experts": 6})
    with pytest.raises(InputError, match=r"layers\[0\]: expert 7 is not one of mixtral"):
        plan_of_widths(instance, solution, CXL, small)
    with pytest.raises(InputError, match="layers: two has 2, not 3"):
        plan_of_widths(instance, solution, CXL, MIXTRAL, 3)
    many = instance.model_copy(update={"layers": instance.layers * 20})
    with pytest.raises(InputError, match=r"layers: 40 where mixtral-8x7b has 32"):
        plan_of_widths(many, solution, CXL, MIXTRAL)


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As for other problems; and with a machine, a model and loads as decode steps."""
    instance, solution = two_layers()
    moeopt.save(instance, tmp_path / "i.json")
    moeopt.save(solution, tmp_path / "s.json")
    files = ["--instance", str(tmp_path / "i.json"), "--solution", str(tmp_path / "s.json")]
    assert call(["simulate", *files, "--chrome", str(tmp_path / "c.json")]) == 0
    assert "which equals the checker's" in (out := capsys.readouterr().out)
    assert "NDP: 4 bits, expert" in out
    assert (tmp_path / "c.json").read_text().count(" bits, expert") == 24  # names and kinds
    machine = ["--machine", "cxl-ndp", "--model", "mixtral-8x7b", "--workload", "hdmoe-mixtral"]
    assert call(["simulate", *files, *machine, "--steps", "2", "--json"]) == 0
    data = json.loads(capsys.readouterr().out)
    assert (data["layers"], data["model_layers"], data["plan"]) == (2, 32, "bitwidth")
    with pytest.raises(InputError, match="--trace, --workload: one of the two is missing"):
        call(["simulate", *files, *machine[:4]])
