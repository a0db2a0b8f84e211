"""Grids by hand, GPTQ against a least-squares reference, and the losses' shapes and order."""

import numpy as np
import pytest
from numpy.typing import NDArray

from moeopt import InputError
from tests.rooms.sim import (
    Grid,
    Inputs,
    expert_losses,
    gptq,
    hessian_of,
    inverse_factor,
    losses,
    measured_table,
    output_mse,
    quantise,
    round_to_nearest,
)

Floats = NDArray[np.float64]


def problem(seed: int, rows: int = 4, columns: int = 6, tokens: int = 30) -> tuple[Floats, Floats]:
    """Return weights and correlated activations."""
    rng = np.random.default_rng(seed)
    mixing = rng.standard_normal((columns, columns))
    return rng.standard_normal((rows, columns)), rng.standard_normal((tokens, columns)) @ mixing


def test_rounding_by_hand() -> None:
    """Two bits from -1 to 2: a step of 1. One bit: signs times the mean magnitude."""
    row = np.array([[-1.0, 2.0, 0.4, 0.6, 1.4, -0.2]])
    assert round_to_nearest(row, 2).tolist() == [[-1.0, 2.0, 0.0, 1.0, 1.0, 0.0]]
    signs = np.array([[1, -1, 3, -3.0]])
    assert round_to_nearest(signs, 1).tolist() == [[2.0, -2.0, 2.0, -2.0]]


def test_positive_rows_keep_zero_on_the_grid() -> None:
    """From 0 to 3 in two bits, and a row of zeros stays as it is."""
    weights = np.array([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]])
    assert round_to_nearest(weights, 2).tolist() == weights.tolist()


def test_rows_have_grids_of_their_own() -> None:
    """An outlier coarsens its own row only; errors are at most half a step."""
    weights = np.random.default_rng(0).standard_normal((5, 40))
    weights[0, 0] = 100.0
    for bits in (2, 3, 4, 8):
        error = np.abs(round_to_nearest(weights, bits) - weights).max(axis=1)
        spread = np.maximum(weights.max(axis=1), 0) - np.minimum(weights.min(axis=1), 0)
        assert (error <= spread / (2**bits - 1) + 1e-12).all()
        assert error[0] > error[1:].max()


def reference(weights: Floats, hessian: Floats, bits: int) -> Floats:
    """Return GPTQ's answer by its definition: after each column, least squares over those left."""
    grid, rounded = Grid(weights, bits), weights.copy()
    columns = weights.shape[1]
    for j in range(columns):
        rounded[:, j] = grid.nearest(rounded[:, j])
        done, free = slice(0, j + 1), slice(j + 1, columns)
        error = rounded[:, done] - weights[:, done]
        shift = np.linalg.solve(hessian[free, free], hessian[free, done] @ error.T).T
        rounded[:, free] = weights[:, free] - shift
    return rounded


@pytest.mark.parametrize("bits", [1, 2, 3, 4])
def test_gptq_is_successive_least_squares(bits: int) -> None:
    """The Cholesky form does what the definition says, here without damping."""
    for seed in range(10):
        weights, activations = problem(seed)
        hessian = hessian_of(activations)
        expected = reference(weights, hessian, bits)
        assert np.allclose(gptq(weights, inverse_factor(hessian, 0.0), bits), expected, atol=1e-6)


def test_gptq_rounds_to_the_same_grid_and_loses_less() -> None:
    """Its values are the grid's; over many matrices the output error is clearly smaller."""
    ratios = []
    for seed in range(20):
        weights, activations = problem(seed, rows=8, columns=16, tokens=64)
        hessian = hessian_of(activations)
        for bits in (2, 3, 4):
            made = gptq(weights, inverse_factor(hessian), bits)
            grid = Grid(weights, bits)
            again = np.stack([grid.nearest(made[:, j]) for j in range(16)], axis=-1)
            assert np.allclose(made, again)
            nearest = round_to_nearest(weights, bits)
            ratios.append(
                output_mse(weights, made, hessian) / output_mse(weights, nearest, hessian)
            )
    assert np.median(ratios) < 0.8


def test_uncorrelated_activations_leave_nothing_to_make_good() -> None:
    """With a diagonal Hessian GPTQ is rounding to nearest."""
    weights, _ = problem(1)
    hessian = np.diag([1.0, 2.0, 3.0, 0.5, 0.1, 4.0])
    assert np.allclose(gptq(weights, inverse_factor(hessian), 3), round_to_nearest(weights, 3))


def test_the_loss_is_the_mean_squared_output_difference() -> None:
    """Computed once more from the outputs themselves."""
    weights, activations = problem(2)
    rounded = round_to_nearest(weights, 2)
    outputs = activations @ (rounded - weights).T
    found = losses(weights, activations, (2,), "rtn")
    assert np.allclose(found, [(outputs**2).mean()])


def test_batches_are_single_matrices_side_by_side() -> None:
    """Shape (experts, rows, columns) gives (experts, widths)."""
    pairs = [problem(seed) for seed in range(3)]
    weights, activations = (np.stack(arrays) for arrays in zip(*pairs, strict=True))
    together = losses(weights, activations, (1, 2, 4), "gptq")
    single = [losses(w, a, (1, 2, 4), "gptq") for w, a in pairs]
    assert together.shape == (3, 3)
    assert np.allclose(together, single)


@pytest.mark.parametrize(
    ("weights", "activations", "bits", "says"),
    [
        (np.ones((2, 3)), np.ones((5, 4)), 2, "must have as many columns as the weights"),
        (np.ones(3), np.ones((5, 3)), 2, "must have as many columns as the weights"),
        (np.full((2, 3), np.nan), np.ones((5, 3)), 2, "must be finite"),
        (np.ones((2, 3)), np.ones((0, 3)), 2, "must not be empty"),
        (np.ones((2, 3)), np.ones((5, 3)), 0, "bits: must be from 1 to 16, not 0"),
        (np.ones((2, 3)), np.ones((5, 3)), 17, "bits: must be from 1 to 16, not 17"),
    ],
)
def test_what_cannot_be_quantised_is_refused(
    weights: Floats, activations: Floats, bits: int, says: str
) -> None:
    """Shapes, values and widths."""
    with pytest.raises(InputError, match=says):
        losses(weights, activations, (bits,))


def test_a_column_that_is_never_active_does_no_harm() -> None:
    """Its Hessian is singular; damping keeps it usable."""
    weights, activations = problem(3)
    activations[:, 2] = 0
    assert np.isfinite(losses(weights, activations, (1, 2, 3), "gptq")).all()
    assert np.isfinite(losses(weights, np.zeros_like(activations), (2,), "gptq")).all()


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
    monkeypatch.setattr(quantise, "BLOCK", 5)
    assert np.allclose(losses(weights, x, (2, 3)), whole, rtol=1e-9)


def test_large_gates_do_not_overflow() -> None:
    """A gate of -1e4 is closed: 0, without a warning."""
    expert = [np.full((2, 2), -1e4), np.ones((2, 2)), np.ones((2, 2))]
    assert expert_losses(expert, np.ones((4, 2)), (4,), "rtn").tolist() == [0.0]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda e, x: ([e[0], e[1][:, 1:], e[2]], x), "must fit each other"),
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
