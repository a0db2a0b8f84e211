"""The checker of bitwidth, rule by rule, against sentences written by hand."""

from typing import Any

import pytest

from tests.rooms.bitwidth import CONSTRAINTS, Instance, Solution, objective, violations

EXPERTS = [{"expert": e, "importance": e, "loss": [8, 4, 1]} for e in range(3)]


def instance(**changes: Any) -> Instance:
    """Return two layers of three experts at 1, 2 or 4 bits."""
    data: dict[str, Any] = {"bits": [1, 2, 4], "loss_scale": 1.0}
    data["layers"] = [
        {"budget_bits": 6, "experts": EXPERTS},
        {"budget_bits": 7, "experts": EXPERTS},
    ]
    return Instance(name="i", **(data | changes))


def plan(*bits: tuple[int | None, ...]) -> Solution:
    """Return a solution."""
    return Solution(instance="i", bits=bits)


VALID = plan((1, 1, 4), (2, 1, 4))

CASES: dict[str, tuple[dict[str, Any], Solution, list[tuple[str, str]]]] = {
    "valid": ({}, VALID, []),
    "no width": ({}, plan((1, None, 4), (2, 1, 4)), [("BW-C1", "bits[0][1]: the expert has no")]),
    "another width": ({}, plan((1, 1, 3), (2, 1, 4)), [("BW-C1", "bits[0][2]: 3 is none of")]),
    "an expert too few": ({}, plan((1, 1), (2, 1, 4)), [("BW-C1", "bits[0]: 2 widths for 3")]),
    "a layer too many": (
        {},
        plan((1,) * 3, (1,) * 3, (1,)),
        [("BW-C1", "3 lists of widths for 2")],
    ),
    "over a budget": ({}, plan((1, 2, 4), (2, 1, 4)), [("BW-C2", "layer 0: the widths sum to 7")]),
    "over both": (
        {},
        plan((4, 4, 4), (4, 4, 4)),
        [("BW-C2", "layer 0: the widths sum to 12"), ("BW-C2", "layer 1: the widths sum to 12")],
    ),
    "the model's budget instead": ({"model_budget_bits": 14}, plan((1, 2, 4), (2, 1, 4)), []),
    "over the model's": (
        {"model_budget_bits": 12},
        VALID,
        [("BW-C3", "the widths sum to 13, model_budget_bits is 12")],
    ),
    "a layer of two widths": (
        {"granularity": "layer"},
        plan((1, 1, 1), (2, 1, 4)),
        [("BW-C4", "layer 1: has experts of different widths")],
    ),
    "a width per layer": ({"granularity": "layer"}, plan((1, 1, 1), (2, 2, 2)), []),
    "a model of two widths": (
        {"granularity": "model"},
        plan((1, 1, 1), (2, 2, 2)),
        [("BW-C4", "the layers' first experts have different widths")],
    ),
    "too few of a width": (
        {"min_count": {"4": 1, "1": 2}},
        VALID,
        [("BW-C5", "layer 1: 1 experts of 1 bits, not 2")],
    ),
    "wider ones do not count": (
        {"min_count": {"2": 1}},
        plan((1, 1, 4), (1, 2, 4)),
        [("BW-C5", "layer 0: 0 experts of 2 bits, not 1")],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_violations_are_named(name: str) -> None:
    """Constraint and sentence, and nothing besides."""
    changes, solution, expected = CASES[name]
    found = violations(instance(**changes), solution)
    assert [rule for rule, _ in found] == [rule for rule, _ in expected]
    for (_, sentence), (_, begin) in zip(found, expected, strict=True):
        assert sentence.startswith(begin)


def test_every_rule_is_tried() -> None:
    """The cases above break each constraint."""
    assert {rule for _, _, found in CASES.values() for rule, _ in found} == set(CONSTRAINTS)


def test_the_objective_is_the_sum_of_losses() -> None:
    """8 + 8 + 1 and 4 + 8 + 1; an expert without a width, or with an unknown one, adds nothing."""
    assert objective(instance(), VALID) == 17 + 13
    assert objective(instance(), plan((1, None, 3), (2, 1, 4))) == 8 + 13


def test_importance_is_no_part_of_it() -> None:
    """It only orders the experts."""
    others = [expert | {"importance": 9 - number} for number, expert in enumerate(EXPERTS)]
    layers = [{"budget_bits": 6, "experts": others}, {"budget_bits": 7, "experts": others}]
    assert objective(instance(layers=layers), VALID) == objective(instance(), VALID)
