"""The study of own layouts: the foreign layout hid who is ahead."""

from benchmarks.studies.own_layouts import foreign, proven, without_layout


def test_on_its_own_layout_a_system_without_ndp_beats_every_schedule_on_trimoe_s() -> None:
    """On `hard`: 0.77 of the best schedule on TriMoE's layout, where tables showed 2.66 times."""
    _, _, given, own = foreign(["hard"])
    assert given.startswith("| hard, TriMoE's | 2.66 / 2.85 | 2.66 / 2.85 |")
    assert own.startswith("| hard, its own | 0.77 / 0.84 | 0.77 / 0.84 |")


def test_the_loads_are_those_of_the_fixed_layout() -> None:
    """Without the layout the same experts have the same tokens and NDP costs."""
    for instance, _ in proven("tri_domain", "hard"):
        free = without_layout(instance).scenarios[0]
        assert sum(free.tokens) == sum(expert.tokens for expert in instance.experts)
        for expert in instance.experts:
            assert free.tokens[expert.expert] == expert.tokens
            assert expert.ndp_ns in (None, free.ndp_ns[expert.expert])
