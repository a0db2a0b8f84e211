"""The paper's equations against roots computed by hand, and the rules that are made from them."""

from fractions import Fraction
from itertools import product
from typing import Any

import pytest

from moeopt import solve
from tests.problems.balance.balance_random_instances import KINDS, random_instance
from tests.rooms.balance import (
    HEURISTICS,
    Instance,
    Symbols,
    balance_equation,
    balanced_experts,
    best_of_all,
    e_max,
    fluid_makespan,
    framework,
    largest_resident_share,
    monde,
    objective,
    take,
    whole_experts,
)
from tests.shares import shares


def instance_of(transfer: int, gpu: int, ndp: int, activation: int = 1, **changes: Any) -> Instance:
    """Return two units with one slice each of alike experts: T_w, T_g are two slices, T_n one."""
    row = {"tokens": 1, "resident": False, "slice_gpu_ns": gpu, "slice_ndp_ns": ndp}
    data: dict[str, Any] = {
        "stage": "decode",
        "ndp_units": 2,
        "slices_per_unit": 1,
        "seq_len": 1,
        "activation_ns": activation,
        "slice_transfer_ns": transfer,
        "experts": [row | {"expert": number} for number in range(2)],
    }
    return Instance(name="alike", **(data | changes))


# With T_w = 8, T_g = 4, T_n = 10, N = 2, TopK = 2 and (N + 1) T_a = 3, left less right is
# 18 E + 4 E' - 23, with E' = frac / 2.
ROOTS: dict[str, tuple[Instance, Fraction, Fraction]] = {
    # Up to 1: 20 E - 23 < 0. Then 18 E + 2 (E - 1) - 23 = 20 E - 25. Right side: 3 + 10 x 3/4.
    "behind the drop at 1": (instance_of(4, 2, 10), Fraction(5, 4), Fraction(21, 2)),
    # T_w = 10, T_n = 8: 18 E + 4 E' - 19, so 20 E = 19. At 1 it is 1, just after 1 it is -1: there
    # is a second root at 21/20, and the least counts. Right side: 3 + 8 x 21/20.
    "before the drop, and again behind it": (
        instance_of(5, 2, 8), Fraction(19, 20), Fraction(57, 5),
    ),
    # Nothing for activations: 20 E < 20 up to 1, where E' is 0 on two units: it would be 1/2 at 2.
    # Then 18 E + 2 (E - 1) - 20 = 0. Right side: 10 x 9/10.
    "not at an integer": (instance_of(4, 2, 10, activation=0), Fraction(11, 10), Fraction(9)),
    # 300 for activations on the units' side: 18 x 2 + 2 < 320 - ... no root, all on the GPU, and no
    # NDP work remains: 8 x 2 + 4 / 2.
    "no root, the units are late": (
        instance_of(4, 2, 10, activation=100), Fraction(2), Fraction(18),
    ),
    # A prompt of 100: 99 x 2 on the GPU's side against 3 + 20, at no expert at all.
    "no root, the GPU is late": (
        instance_of(4, 2, 10, stage="prefill", seq_len=100), Fraction(0), Fraction(198),
    ),
    # A prompt of 4: 6 on the GPU's side, so 20 E - 17. Right side: 3 + 10 x (2 - 17/20).
    "Eq. 2": (
        instance_of(4, 2, 10, stage="prefill", seq_len=4), Fraction(17, 20), Fraction(29, 2),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", ROOTS)
def test_roots_by_hand(name: str) -> None:
    """E_g and the makespan that it predicts, from the comment beside it."""
    instance, share, makespan = ROOTS[name]
    assert balanced_experts(instance) == share
    assert fluid_makespan(instance) == makespan


def difference(instance: Instance, share: Fraction, times: str) -> Fraction:
    """Return left less right of Eq. 1 or 2 at a share, with E_g' as the specification words it.

    E_g' is 1/N at positive multiples of N, and at TopK; experts are taken one after the other.
    """
    s = Symbols.of(instance, times)
    whole = min(share.numerator // share.denominator, s.top_k - 1)
    if share == whole and whole and whole % s.units == 0:
        whole -= 1
    part = share - whole
    left = s.transfer * share + s.gpu[whole] * part / s.units + s.gpu_overhead
    remaining = sum(s.ndp[whole + 1 :]) + s.ndp[whole] * (1 - part)
    return left - s.ndp_overhead - remaining


@pytest.mark.parametrize("times", ["own", "mean"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seeds", shares(5, 20))
def test_the_root_is_the_least_one(kind: str, times: str, seeds: range) -> None:
    """Zero at the root, negative at a grid of shares before it; at both ends what is assumed."""
    for seed in seeds:
        instance = random_instance(seed, kind)
        share = balanced_experts(instance, times)
        top_k = len(instance.experts)
        assert 0 <= share <= top_k
        before = [share * k / 60 for k in range(60)] + [
            Fraction(k) for k in range(top_k) if k < share
        ]
        if share:
            assert all(difference(instance, point, times) < 0 for point in before)
        if 0 < share < top_k:
            assert difference(instance, share, times) == 0
        if share == 0:
            assert difference(instance, share, times) >= 0
        if share == top_k:
            assert difference(instance, share, times) <= 0


def differing(**changes: Any) -> Instance:
    """Return two experts on two units with three slices each: the second has more tokens."""
    first = instance_of(4, 2, 10, slices_per_unit=3).experts[0]
    second = first.model_copy(
        update={"expert": 1, "tokens": 2, "slice_gpu_ns": 5, "slice_ndp_ns": 30}
    )
    return instance_of(4, 2, 10, slices_per_unit=3, experts=(first, second), **changes)


def test_whose_times_stand_in_the_equations() -> None:
    """Each expert's own, in the order in which they are taken, or the mean for both."""
    s = Symbols.of(differing())
    assert (s.top_k, s.units, s.transfer) == (2, 2, 24)
    assert (s.gpu, s.ndp) == ((30, 12), (90, 30))
    assert Symbols.of(differing(), taken_first="cold").ndp == (30, 90)
    s = Symbols.of(differing(), "mean")
    assert (s.gpu, s.ndp) == ((21, 21), (60, 60))


def test_own_times_balance_what_remains() -> None:
    """By hand, N = 2, (N + 1) T_a = 3: 24 E + 30 E / 2 = 3 + 30 + 90 (1 - E), E = 123 / 129.

    With means 24 E + 21 E / 2 = 3 + 60 (2 - E) has no root up to 1 (94.5 E = 123), and beyond it
    84 E + 10.5 (E - 1) = 123. The cold one first: 24 E + 6 E = 93 + 30 (1 - E) has none either,
    and beyond, 24 E + 15 (E - 1) = 3 + 90 (2 - E).
    """
    assert balanced_experts(differing()) == Fraction(123, 129)
    assert balanced_experts(differing(), "mean") == Fraction(1335, 945)
    assert balanced_experts(differing(), taken_first="cold") == Fraction(198, 129)
    assert fluid_makespan(differing()) == 3 + 30 + 90 * (1 - Fraction(123, 129))


def test_where_the_unhidden_part_is_nominal() -> None:
    """8 + 4 / 2 against 10 at E_g = 1, but E_g' is 1/2 at multiples of 2 alone, and 0 there.

    At 2 it is 1/2, where 14 x 2 + 8 / 2 = 32 is what a third expert takes.
    """
    even = instance_of(4, 2, 10, activation=0)
    assert balanced_experts(even) == Fraction(11, 10)
    row = even.model_dump()["experts"][0] | {"slice_gpu_ns": 4, "slice_ndp_ns": 32}
    three = [row | {"expert": number} for number in range(3)]
    exact = instance_of(7, 4, 32, activation=0, experts=three)
    assert balanced_experts(exact) == 2


def resident(instance: Instance, count: int) -> Instance:
    """Return the instance with its first experts on the GPU."""
    rows = [
        row | {"resident": number < count}
        for number, row in enumerate(instance.model_dump()["experts"])
    ]
    return Instance(**instance.model_dump() | {"experts": rows})


def test_e_max_by_hand() -> None:
    """(2 x 10 + 3) / (4 + 10) = 23/14, at most what is resident; rounded down to whole experts."""
    alike = instance_of(4, 2, 10)
    shares = [largest_resident_share(resident(alike, count)) for count in range(3)]
    assert shares == [0, 1, Fraction(23, 14)]
    assert e_max(resident(alike, 2)) == take(resident(alike, 2), 2)
    assert sum(map(sum, e_max(alike).gpu_slices)) == 0
    # Nothing takes time: all that is resident.
    assert largest_resident_share(resident(instance_of(4, 0, 0), 2)) == 2


def test_e_max_may_exceed_what_is_active() -> None:
    """(2 x 10 + 300) / 14 is above two: then two."""
    late = resident(instance_of(4, 2, 10, activation=100), 2)
    assert largest_resident_share(late) == 2


def test_mondes_whole_experts_by_hand() -> None:
    """2 x 10 / (8 + 10) = 1.1: one. With transfers of 3 a slice 20 / 16 rounds to one, 1 to two.

    Of two that differ: 24 E = 30 + 90 (1 - E) at 1.05, with means 24 E = 60 (2 - E) at 1.4.
    """
    assert whole_experts(differing()) == 1
    assert whole_experts(instance_of(4, 2, 10)) == 1
    assert whole_experts(instance_of(1, 2, 10)) == 2
    assert whole_experts(instance_of(30, 2, 10)) == 0
    assert whole_experts(instance_of(0, 2, 0)) == 0
    assert monde(instance_of(4, 2, 10)) == take(instance_of(4, 2, 10), 2)


def test_the_equation_is_rounded_to_the_best_neighbour() -> None:
    """E_g = 5/4 is 2.5 slices: two cost 8 + 2 = 10 and 13; three 14 and 13; two it is.

    Neighbours are also the numbers of which every unit gives up as many.
    """
    alike = instance_of(4, 2, 10)
    assert balance_equation(alike) == take(alike, 2)
    assert balance_equation(alike, rounding="nearest") == take(alike, 3)
    assert balance_equation(alike, rounding="down") == take(alike, 2)
    for kind, seed in product(KINDS, range(20)):
        instance = random_instance(seed, kind)
        slices = balanced_experts(instance) * instance.slices
        n = instance.ndp_units
        counts = [slices // 1, -(-slices // 1), slices // n * n, -(-slices // n) * n]
        near = [take(instance, int(count)) for count in counts]
        assert objective(instance, balance_equation(instance)) == min(
            objective(instance, option) for option in near
        )


def test_the_framework_switches_on_residents() -> None:
    """Eq. 3 as soon as one active expert is resident, else the balance condition."""
    alike = instance_of(4, 2, 10)
    assert framework(alike) == balance_equation(alike)
    one = resident(alike, 1)
    assert framework(one) == e_max(one)
    # The rule leaves the link idle: 13 on the units, while two transfers and 2 end at 10.
    assert objective(one, framework(one)) == 13
    assert solve(one, "brute-force").objective == 10


def test_the_prediction_is_no_bound() -> None:
    """Fine slices hide computation that E_g' charges: the optimum lies below the prediction.

    Coarse ones cannot follow it: the optimum lies above.
    """
    fine = instance_of(4, 40, 100, slices_per_unit=1, activation=0)
    fine = Instance(**fine.model_dump() | {
        "slices_per_unit": 40, "slice_transfer_ns": 40,
        "experts": [row | {"slice_ndp_ns": 100} for row in fine.model_dump()["experts"]],
    })  # fmt: skip
    coarse = instance_of(4, 2, 10)
    below = solve(fine, "dp").objective
    above = solve(coarse, "dp").objective
    assert isinstance(below, int)
    assert isinstance(above, int)
    assert below < fluid_makespan(fine)
    assert above > fluid_makespan(coarse)


def test_the_warm_start_is_the_best_of_all_rules() -> None:
    """No heuristic is better."""
    for kind, seed in product(KINDS, range(5)):
        instance = random_instance(seed, kind)
        values = [objective(instance, rule(instance)) for rule in HEURISTICS.values()]
        assert objective(instance, best_of_all(instance)) == min(values)
