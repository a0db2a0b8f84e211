"""Costs at token counts that an instance does not have."""

import numpy as np

from moeopt.sim.machines.cost import expert_costs
from moeopt.sim.presets import get_machine, get_model
from moeopt.sim.traces.popularity import CostCurve


def test_exact_where_known_and_near_elsewhere() -> None:
    """On TriMoE's machine a curve through some counts is within 10 % of the rest, beyond too."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2")
    known = np.unique(np.random.default_rng(0).integers(1, 130, 60))
    for path in ("gpu_hit_ns", "cpu_striped_ns", "ndp_ns"):
        curve = CostCurve.of(
            known[None], getattr(expert_costs(machine, model, known, 1000), path)[None], 1000
        )
        assert (curve(known) == getattr(expert_costs(machine, model, known, 1000), path)).all()
        more = np.arange(1, 195)
        true = getattr(expert_costs(machine, model, more, 1000), path)
        got = np.array([CostCurve(curve.tokens, curve.ns, np.ones(1), 1000)([n])[0] for n in more])
        assert np.abs(got / true - 1).max() < 0.1, path
        assert (np.diff(got) >= 0).all()


def test_no_tokens_cost_nothing_and_one_count_is_a_constant() -> None:
    """The two ends of what an instance can say."""
    curve = CostCurve.of([[4, 0]], [[80, 999]])
    assert curve([[0, 7], [1, 0]]).tolist() == [[0, 80], [80, 0]]


def test_experts_of_their_own_cost_keep_it() -> None:
    """Where equal counts cost different times, each expert's ratio to the others stays."""
    tokens = np.array([[10, 10], [20, 20]])
    curve = CostCurve.of(tokens, [[100, 300], [200, 600]])
    assert curve([[10, 10], [20, 20], [30, 15]]).tolist() == [[100, 300], [200, 600], [300, 450]]
