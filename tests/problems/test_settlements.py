"""Settlements: data with a default, and method names that carry them."""

import pytest

from moeopt.core.errors import InputError
from moeopt.core.settlements import Settlement, check_settled, markdown, settled_name, split_name

TIES = Settlement(
    name="tie_order",
    question="Which of equally cheap paths is taken?",
    words="select the most suitable one",
    source="TriMoE 4.2",
    values={"cpu": "the CPU first", "gpu": "the GPU first"},
    default="cpu",
    why="never worse",
    methods=("greedy",),
)


def test_a_name_and_its_settlements_make_each_other() -> None:
    name = settled_name("greedy", {"tie_order": "gpu", "refinement": "all"})
    assert name == "greedy[refinement=all,tie_order=gpu]"
    assert split_name(name) == ("greedy", {"refinement": "all", "tie_order": "gpu"})
    assert split_name("greedy") == ("greedy", {})
    assert settled_name("greedy", {}) == "greedy"


@pytest.mark.parametrize("name", ["greedy[]", "greedy[tie_order]", "greedy[=a]", "g[a=b,a=c]"])
def test_brackets_hold_each_settlement_once(name: str) -> None:
    with pytest.raises(InputError, match=r"METHOD\[name=value"):
        split_name(name)


def test_only_what_a_method_takes_is_settled() -> None:
    check_settled("greedy", {"tie_order": "gpu"}, [TIES])
    with pytest.raises(InputError, match='tie_order: must be one of cpu, gpu, not "npu"'):
        check_settled("greedy", {"tie_order": "npu"}, [TIES])
    with pytest.raises(InputError, match='trimoe takes no settlement "tie_order"; known: none'):
        check_settled("trimoe", {"tie_order": "gpu"}, [TIES])


def test_the_default_is_one_of_the_values() -> None:
    with pytest.raises(ValueError, match="tie_order"):
        Settlement("tie_order", "?", "", "", {"a": "b", "c": "d"}, "x", "")


def test_the_specs_section_names_every_value_and_the_default() -> None:
    text = markdown([TIES])
    assert "`cpu` (default): the CPU first" in text
    assert "`gpu`: the GPU first" in text
    assert '"select the most suitable one" (TriMoE 4.2)' in text
