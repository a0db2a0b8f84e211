"""Small random balance instances of every kind that the tests tell apart."""

import random

from tests.rooms.balance import Instance

KINDS = (
    "mixed",
    "equal experts",
    "prefill",
    "all resident",
    "none resident",
    "fast link",
    "fast GPU",
    "one unit",
    "zero times",
    "huge numbers",
)

SHAPES = [(1, 1, 2), (1, 1, 4), (1, 2, 2), (1, 4, 1), (2, 1, 1), (2, 1, 3), (2, 2, 2), (3, 1, 2)]
SHAPES += [(3, 2, 1), (2, 1, 4), (1, 3, 3), (4, 1, 2)]
"""Units, slices per unit, experts: few enough for brute force."""


def random_instance(seed: int, kind: str = "mixed") -> Instance:
    """Return a random instance with at most 8 slices to decide on, or so."""
    rng = random.Random(f"balance {kind} {seed}")
    shapes = [shape for shape in SHAPES if shape[0] == 1] if kind == "one unit" else SHAPES
    units, per_unit, count = rng.choice(shapes)
    scale = 3 * 10**10 if kind == "huge numbers" else rng.choice([1, 1, 1000, 997])
    prefill = kind == "prefill" or (kind == "mixed" and rng.random() < 0.4)
    longest_gpu = {"fast GPU": 3, "fast link": 30}.get(kind, 12)
    equal = {"slice_gpu_ns": rng.randint(1, 12) * scale, "slice_ndp_ns": rng.randint(1, 30) * scale}
    rows = []
    for number in rng.sample(range(64), count):
        resident = {"all resident": True, "none resident": False}.get(kind, rng.random() < 0.3)
        costs = {
            "slice_gpu_ns": rng.randint(0, longest_gpu) * scale,
            "slice_ndp_ns": rng.randint(0, 30) * scale,
        }
        row = {"expert": number, "tokens": rng.randint(1, 40), "resident": resident}
        rows.append(row | (equal if kind == "equal experts" else costs))
    zero = kind == "zero times"
    return Instance(
        name=f"{kind}-{seed}",
        stage="prefill" if prefill else "decode",
        ndp_units=units,
        slices_per_unit=per_unit,
        seq_len=rng.randint(1, 6) if prefill else 1,
        activation_ns=0 if zero else rng.choice([0, 1, 2, 5]) * scale,
        slice_transfer_ns=0 if zero else rng.randint(1, 4 if kind == "fast link" else 20) * scale,
        experts=rows,
    )
