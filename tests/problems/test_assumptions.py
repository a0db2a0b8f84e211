"""Assumptions: data with a default, and method names that carry them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from formulations.assumptions import markdown
from moeopt import InputError
from tests.rooms.core import Assumption, assumed_name, check_assumed, split_name
from tests.rooms.problems import DEFAULT, ColdCut

TIES = Assumption(
    name="tie_order",
    question="Which of equally cheap paths is taken?",
    words="select the most suitable one",
    source="TriMoE 4.2",
    values={"cpu": "the CPU first", "gpu": "the GPU first"},
    default="cpu",
    why="never worse",
    methods=("greedy",),
)


def test_a_name_and_its_assumptions_make_each_other() -> None:
    name = assumed_name("greedy", {"tie_order": "gpu", "refinement": "all"})
    assert name == "greedy[refinement=all,tie_order=gpu]"
    assert split_name(name) == ("greedy", {"refinement": "all", "tie_order": "gpu"})
    assert split_name("greedy") == ("greedy", {})
    assert assumed_name("greedy", {}) == "greedy"


@pytest.mark.parametrize("name", ["greedy[]", "greedy[tie_order]", "greedy[=a]", "g[a=b,a=c]"])
def test_brackets_hold_each_assumption_once(name: str) -> None:
    with pytest.raises(InputError, match=r"METHOD\[name=value"):
        split_name(name)


def test_only_what_a_method_takes_is_assumed() -> None:
    check_assumed("greedy", {"tie_order": "gpu"}, [TIES])
    with pytest.raises(InputError, match='tie_order: must be one of cpu, gpu, not "npu"'):
        check_assumed("greedy", {"tie_order": "npu"}, [TIES])
    with pytest.raises(InputError, match='trimoe takes no assumption "tie_order"; known: none'):
        check_assumed("trimoe", {"tie_order": "gpu"}, [TIES])


def test_the_default_is_one_of_the_values() -> None:
    with pytest.raises(ValueError, match="tie_order"):
        Assumption("tie_order", "?", "", "", {"a": "b", "c": "d"}, "x", "")


def test_the_specs_section_names_every_value_and_the_default() -> None:
    text = markdown([TIES], {})
    assert "`cpu` (default): the CPU first" in text
    assert "`gpu`: the GPU first" in text
    assert '"select the most suitable one" (TriMoE 4.2)' in text


def test_what_another_problem_states_is_a_link_with_its_ids() -> None:
    here = replace(TIES, methods=(), question="Which one (LA-C8)?")
    there = replace(TIES, methods=("greedy",), question="Which one (TD-C6)?")
    link = r"as in [other](../other/spec.md#assumptions)"
    assert markdown([here], {"other": [there]}) == (
        f"- **`tie_order`** (instances): {link}, with LA-C8 for TD-C6.\n"
    )
    text = markdown(
        [replace(here, values={**here.values, "npu": "the NPU first"})], {"other": [there]}
    )
    assert f"`cpu` (default), `gpu`: {link}\n  - `npu`: the NPU first" in text


def test_values_of_one_unit_are_one_line() -> None:
    batch = Assumption("batch", "?", "", "", {"64": "64 tokens", "128": "128 tokens"}, "64", "why")
    assert "  - `64` (default), `128` tokens\n" in markdown([batch], {})


def test_words_are_quoted_once() -> None:
    again = replace(TIES, name="delta", methods=())
    assert "The paper: as for `tie_order` (TriMoE 4.2)" in markdown([TIES, again], {})
    link = "`tie_order` of [other](../other/spec.md#assumptions)"
    assert f"The paper: as for {link} (TriMoE 4.2)" in markdown([again], {"other": [TIES]})


LOADS = [50, 0, 3, 40, 5, 2]
"""100 tokens; rising: 0, 2, 3, 5, 40, 50, so the coldest hold 0, 2, 5, 10, 50, 100."""


@pytest.mark.parametrize(
    ("cut", "cold"),
    [
        ("tokens 0", 1),
        ("tokens 0.0199", 1),
        ("tokens 0.02", 2),
        (DEFAULT, 3),
        ("tokens 0.1", 4),
        ("tokens 0.5", 5),
        ("tokens 1", 6),
        ("experts 0", 0),
        ("experts 0.5", 3),
        ("experts 0.7", 4),
        ("experts 1.0", 6),
        (" experts  1 ", 6),
    ],
)
def test_how_many_are_cold(cut: str, cold: int) -> None:
    """By hand; a share that is met exactly is met."""
    assert ColdCut.parse(cut).count(LOADS) == cold


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=30), st.floats(0, 1))
def test_a_cut_by_tokens_is_the_largest_within_the_share(loads: list[int], share: float) -> None:
    """The cold hold at most the share; with one more they would hold more, whatever the sizes."""
    cold = ColdCut.parse(f"tokens {share!r}").count(loads)
    part, whole = share.as_integer_ratio()
    rising, room = sorted(loads), part * sum(loads)
    slack = whole * sum(loads) // 10**12 + whole  # the text is the float to 17 digits
    assert whole * sum(rising[:cold]) <= room + slack
    if cold < len(loads):
        assert whole * sum(rising[: cold + 1]) > room - slack


@pytest.mark.parametrize(
    "text",
    ["", "tokens", "0.7", "share 0.7", "tokens 8%", "experts -0.1", "tokens 1.01", "tokens nan"],
)
def test_what_is_no_cut_is_named(text: str) -> None:
    """One line that says what would be right."""
    with pytest.raises(InputError, match="cold_cut: must be 'tokens X' or 'experts X' with X from"):
        ColdCut.parse(text)
