"""What is minimised over sampled futures, and how a command line says it."""

import pytest

import moeopt
from moeopt import Futures, InputError


def test_the_value_is_a_sum_or_a_quantile() -> None:
    """By hand: of four costs half stay within the second, nine tenths within the last."""
    costs = [40, 10, 30, 20]
    assert Futures().value(costs) == 100
    assert Futures(quantile=0.5).value(costs) == 20
    assert Futures(quantile=0.51).value(costs) == 30
    assert Futures(quantile=0.9).value(costs) == 40
    assert Futures(quantile=1).value(costs) == 40
    assert Futures(quantile=0.1 + 0.2).value(range(10)) == 2  # floats: 0.30000000000000004


def test_a_command_line_says_it() -> None:
    """Names and numbers, in any order."""
    assert Futures.from_text("quantile=0.9, samples=64") == Futures(samples=64, quantile=0.9)


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("samples=0", "samples: must be from 1 to 256, not 0"),
        ("samples=257", "samples"),
        ("samples=many", "samples: must be a number, not 'many'"),
        ("quantile=0", "quantile: must be above 0"),
        ("quantile=nan", "quantile"),
        ("horizon=-1", "horizon"),
        ("seed=3", "'seed=3': must be NAME=NUMBER, of samples, quantile, horizon"),
        ("samples=3,samples=4", "'samples=4'"),
        ("", "''"),
    ],
)
def test_a_wrong_text_is_named(text: str, named: str) -> None:
    """One line with the entry and what would be right."""
    with pytest.raises(InputError, match=named) as error:
        Futures.from_text(text)
    assert "\n" not in str(error.value)


def test_futures_go_with_robust_only() -> None:
    """Other methods have no use for them, and say so."""
    instance = moeopt.load("instances/tri_domain/esft-window/window-law-layer4-batch256.json")
    with pytest.raises(InputError, match="'robust' only, not with 'threshold'"):
        moeopt.solve(instance, futures=Futures())
    with pytest.raises(InputError, match=r"futures: must be moeopt\.Futures"):
        moeopt.solve(instance, futures=8)
