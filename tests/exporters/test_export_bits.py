"""Bits for Mixture-Compressor: what its loader makes of the file, and the plans it can hold."""

import pickle
import re
from pathlib import Path
from typing import Any

import pytest

import moeopt
from moeopt import InputError
from tests.problems.bitwidth.bitwidth_random_instances import random_instance
from tests.rooms.bitwidth import Instance, Solution


def tools_bits(path: Path, wbits: int) -> dict[int, dict[int, int]]:
    """Return what ``main.py --mixed_type mixed`` quantises each expert with, by its description.

    It unpickles the file, takes layers and experts by number, and knows the codes 1 and 3.
    """
    config = pickle.loads(path.read_bytes())
    found: dict[int, dict[int, int]] = {}
    for layer in range(len(config)):
        low = [expert for expert in config[layer] if config[layer][expert] == 1]
        high = [expert for expert in config[layer] if config[layer][expert] == 3]
        found[layer] = {
            expert: wbits + (expert in high) - (expert in low) for expert in config[layer]
        }
    return found


def instance(bits: list[int], losses: list[list[int]], budget: int, **more: Any) -> Instance:
    """Return two equal layers with these losses of each expert."""
    experts = [{"expert": e, "importance": 1, "loss": loss} for e, loss in enumerate(losses)]
    layer = {"budget_bits": budget, "experts": experts}
    return Instance(name="i", bits=bits, layers=[layer] * 2, **more)


def wbits_of(flags: str) -> int:
    """Return the flag's number, which the tool takes from its first digit."""
    match = re.match(r"--wbits ([1-8])bit --mixed_type mixed --precisions ", flags)
    assert match is not None
    return int(match[1])


@pytest.mark.parametrize("seed", range(10))
def test_bits_lead_back(seed: int, tmp_path: Path) -> None:
    """Layer -> expert -> bits, each expert under its own number, as the tool would have it."""
    given = random_instance(seed)
    result = moeopt.solve(given, "dp")
    if result.solution is None:  # there is nothing to export then
        assert result.status == "infeasible"
        return
    exported = moeopt.export(result.solution, given, to="mixture-compressor")
    path, _ = exported.save(tmp_path / "bits.pkl")
    assert exported.flags is not None
    wbits = wbits_of(exported.flags(path))
    bits = tools_bits(path, wbits)
    back = Solution(
        instance=given.name,
        bits=tuple(
            tuple(bits[row][expert.expert] for expert in layer.experts)
            for row, layer in enumerate(given.layers)
        ),
    )
    found = moeopt.check(given, back).objective
    if exported.loss is None:
        assert back == result.solution
    else:
        assert found == exported.loss.exported


@pytest.mark.parametrize(
    ("widths", "wbits"), [((1, 3), 2), ((2, 4), 3), ((4,), 3), ((4, 5), 4), ((8,), 7)]
)
def test_three_neighbouring_widths_are_taken(
    widths: tuple[int, ...], wbits: int, tmp_path: Path
) -> None:
    """4-bit experts stay 4-bit experts: `--wbits` is chosen so that the codes can say them."""
    bits = (1, 2, 3, 4, 5, 8)
    given = instance(list(bits), [[9, 8, 7, 6, 5, 4]] * 2, 16)
    plan = Solution(instance="i", bits=((widths[0], widths[-1]),) * 2)
    exported = moeopt.export(plan, given, to="mixture-compressor")
    path, _ = exported.save(tmp_path / "b.pkl")
    assert exported.loss is None
    assert exported.flags is not None
    assert wbits_of(exported.flags(path)) == wbits
    assert tools_bits(path, wbits) == {la: {0: widths[0], 1: widths[-1]} for la in (0, 1)}


def test_other_plans_become_the_best_of_three_widths() -> None:
    """1 and 4 bits at once cannot be said; all such plans are tried by hand."""
    given = instance([1, 2, 4], [[20, 9, 0], [9, 8, 7], [5, 4, 1]], 7)
    result = moeopt.solve(given, "dp")
    assert result.solution is not None
    widths = {width for row in result.solution.bits for width in row}
    assert {1, 4} <= widths
    exported = moeopt.export(result.solution, given, to="mixture-compressor")
    assert exported.loss is not None
    options = [(1, 2), (2, 4)]
    best = min(
        sum(given.layers[0].experts[e].loss[given.bits.index(w)] for e, w in enumerate(row))
        for pair in options
        for row in [(a, b, c) for a in pair for b in pair for c in pair]
        if sum(row) <= 7
    )
    assert exported.loss.exported == 2 * best
    assert exported.loss.given == result.objective
    assert exported.loss.percent is not None
    assert exported.loss.percent > 0


def test_a_plan_that_no_widths_can_replace_is_refused() -> None:
    """Every layer must have an expert of 1 and one of 4 bits: exit code 3."""
    given = instance([1, 4], [[5, 1], [5, 1]], 5, min_count={1: 1, 4: 1})
    plan = Solution(instance="i", bits=((1, 4),) * 2)
    with pytest.raises(moeopt.MoeoptError, match="widths of three that follow each other") as error:
        moeopt.export(plan, given, to="mixture-compressor")
    assert error.value.exit_code == 3


def test_bits_have_the_models_layers_where_it_is_known() -> None:
    """DeepSeek-V2-Lite's first layer has no experts: the plan's first is the model's second."""
    layer = {"budget_bits": 4, "experts": [{"expert": 5, "importance": 1, "loss": [2, 1]}]}
    given = Instance(name="i", bits=[1, 2], layers=[layer] * 26)
    plan = Solution(instance="i", bits=((2,),) * 26)
    exported = moeopt.export(plan, given, to="mixture-compressor", model="deepseek-v2-lite")
    assert pickle.loads(exported.payload) == {number: {5: 2} for number in range(1, 27)}
    loads, left_out = exported.warnings
    assert loads.endswith("loads MixtralForCausalLM only, not DeepseekV2ForCausalLM")
    assert left_out == f"the tool gives the {26 * 63} experts that the plan leaves out 2 bits each"
    with pytest.raises(InputError, match="mixtral-8x7b has 32 layers with experts, the plan 26"):
        moeopt.export(plan, given, to="mixture-compressor", model="mixtral-8x7b")
