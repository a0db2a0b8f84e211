"""Whole experts, quantised: the gated formula, GPTQ in blocks, tables of many experts."""

import numpy as np
import pytest
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.models.quantise import (
    Inputs,
    expert_losses,
    losses,
    measured_table,
    round_to_nearest,
)

Floats = NDArray[np.float64]
HIDDEN, INNER = 12, 20


def gated(seed: int) -> list[Floats]:
    """Return gate, up and down of a random expert."""
    rng = np.random.default_rng(seed)
    shapes = [(INNER, HIDDEN), (INNER, HIDDEN), (HIDDEN, INNER)]
    return [rng.standard_normal(shape) for shape in shapes]


def run(expert: list[Floats], x: Floats) -> Floats:
    """Return an expert's output token by token, as the formula reads."""
    gate, up, down = expert
    rows = []
    for token in x:
        g = gate @ token
        rows.append(down @ (g / (1 + np.exp(-g)) * (up @ token)))
    return np.array(rows)


def test_rounding_a_gated_expert_is_the_error_of_its_output() -> None:
    """Every matrix rounded, the whole expert run: the mean squared difference of an entry."""
    expert, x = gated(0), np.random.default_rng(1).standard_normal((15, HIDDEN))
    exact = run(expert, x)
    found = expert_losses(expert, x, (2, 3, 8), "rtn")
    for width, loss in zip((2, 3, 8), found, strict=True):
        rounded = run([round_to_nearest(matrix, width) for matrix in expert], x)
        assert loss == pytest.approx(np.square(rounded - exact).mean(), rel=1e-9)


def test_gptq_loses_less_than_rounding() -> None:
    """Over twenty experts, on inputs that are correlated, at every width."""
    mixing = np.random.default_rng(9).standard_normal((HIDDEN, HIDDEN))
    x = np.random.default_rng(2).standard_normal((200, HIDDEN)) @ mixing
    lost = {
        method: np.sum([expert_losses(gated(s), x, (2, 3, 4), method) for s in range(20)], axis=0)
        for method in ("gptq", "rtn")
    }
    assert (lost["gptq"] < lost["rtn"]).all()


def test_a_single_matrix_is_as_before() -> None:
    """One matrix per expert: the plain output error."""
    matrix, x = gated(3)[0], np.random.default_rng(3).standard_normal((30, HIDDEN))
    assert expert_losses([matrix], x, (2, 4)).tolist() == losses(matrix, x, (2, 4)).tolist()


def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 5 of 20 columns give what one block gives; rounding sees no difference."""
    rng = np.random.default_rng(4)
    weights, x = rng.standard_normal((3, 7, 20)), rng.standard_normal((3, 60, 20))
    whole = losses(weights, x, (2, 3))
    monkeypatch.setattr("moeopt.sim.models.quantise.BLOCK", 5)
    assert np.allclose(losses(weights, x, (2, 3)), whole, rtol=1e-9)


def test_large_gates_do_not_overflow() -> None:
    """A gate of -1e4 is closed: 0, without a warning."""
    expert = [np.full((2, 2), -1e4), np.ones((2, 2)), np.ones((2, 2))]
    assert expert_losses(expert, np.ones((4, 2)), (4,), "rtn").tolist() == [0.0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e, x: ([e[0], e[1][:, 1:], e[2]], x), "must fit each other"),
        (lambda e, x: ([e[0], e[1], e[2].T], x), "must fit each other"),
        (lambda e, x: (e[:2], x), "one matrix, or gate, up and down"),
        (lambda e, x: (e, x[:, 1:]), "must have 12 columns"),
        (lambda e, x: (e, x[:0]), "must not be empty"),
        (lambda e, x: (e, x * np.nan), "must be finite"),
    ],
)
def test_what_does_not_fit_is_refused(change: object, reason: str) -> None:
    """Shapes against each other, and numbers that are none."""
    expert, x = change(gated(0), np.ones((3, HIDDEN)))  # type: ignore[operator]
    with pytest.raises(InputError, match=reason):
        expert_losses(expert, x, (2,))


def test_a_table_of_layers() -> None:
    """Each layer has inputs of its own; numbers of layers are facts, rows are positions."""
    said: list[tuple[int, int, str, str]] = []
    table = measured_table(
        "made", lambda layer, e: gated(10 * layer + e), (3, 7), 2, (2, 4),
        inputs=Inputs(tokens=16, seed=5), method="rtn", on_start=lambda *a: said.append(a),
    )  # fmt: skip
    x = Inputs(tokens=16, seed=5).of(1, HIDDEN)
    assert table.losses.shape == (2, 2, 2)
    assert table.losses[1, 0].tolist() == expert_losses(gated(70), x, (2, 4), "rtn").tolist()
    assert table.facts is not None
    assert table.facts["model_layers"] == [3, 7]
    assert said[2] == (2, 4, "layer 7", "expert 0")


def test_given_inputs() -> None:
    """One array for all layers, or one per layer and no more."""
    one, many = np.ones((4, 2)), np.arange(16.0).reshape(2, 4, 2)
    assert Inputs(one).of(5, 2).tolist() == one.tolist()
    assert Inputs(many).of(1, 2).tolist() == many[1].tolist()
    with pytest.raises(InputError, match="hold 2 layers"):
        Inputs(many).of(2, 2)
    assert (Inputs().of(0, 3) != Inputs().of(1, 3)).all()
