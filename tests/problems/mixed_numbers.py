"""Instances with other numbers, which share no common divisor and come from all orders of size.

Multiples of KiB, of a quantum or of a scale are divided by it before anything is solved, so that
solvers then see small numbers, however large the instance's are. What a real machine and a real
file state are bytes and nanoseconds as they are. `with_numbers` keeps an instance's structure and
draws its times, sizes, losses and capacities again by one of `LAWS`, so that tables still rise,
parts are no longer than their wholes, and capacities are near what some choice takes.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from moeopt import InputError
from tests.rooms.split import Instance as Split

LAWS = (
    "decades",
    "primes",
    "bytes",
    "powers",
    "almost equal",
    "pairs",
    "zeros",
    "scaled",
    "near limits",
)
"""How numbers are drawn.

"decades": log-uniform over twelve decades, all digits random. "primes": the next prime of such a
number. "bytes": 1e7 to 1e10, times of 1e4 to 1e8 ns, most of them near one of a few. "powers": 2^33
to 2^42 with a few more or less, thirds of them, and small numbers. "almost equal": all of them
within a few of one number. "pairs": one of three numbers, or 1 more or less. "zeros": nothing,
little, or twelve digits. "scaled": the old number times one factor, with other low digits. "near
limits": any of these, as large as the problem's limits allow.
"""

PLAIN = LAWS[:-1]
WITNESSES = (2, 3, 5, 7, 11, 13, 17)
"""Miller's test with these is right up to 3.4e14."""


def is_prime(number: int) -> bool:
    """Tell whether a number up to 3.4e14 is prime."""
    if number < 2 or any(number % small == 0 for small in WITNESSES):
        return number in WITNESSES
    odd, twos = number - 1, 0
    while odd % 2 == 0:
        odd, twos = odd // 2, twos + 1
    for base in WITNESSES:
        power = pow(base, odd, number)
        if power in (1, number - 1):
            continue
        if all((power := power * power % number) != number - 1 for _ in range(twos - 1)):
            return False
    return True


class Numbers:
    """Numbers by a law; those of a sum are made smaller or larger by one factor.

    Parameters
    ----------
    rng
        What decides, the same for every factor.
    law
        One of `PLAIN`.
    factor
        What every number is multiplied by; low digits are drawn again.
    """

    def __init__(self, rng: random.Random, law: str, factor: float = 1.0) -> None:
        self.rng, self.law, self.factor = rng, law, factor
        self.first = rng.choice([33, 34, 36, 39, 40, 41])
        self.bases = [self._decade(3, 12) for _ in range(3)]
        if rng.random() < 0.5:
            self.bases[0] = 2 ** rng.randint(20, 41) - rng.randint(0, 9)
        self.sizes = [self._decade(7, 10) for _ in range(rng.randint(1, 3))]
        self.times = [self._decade(4, 8) for _ in range(rng.randint(1, 4))]
        self.scale = self._decade(3, 10) | 1
        self.spread = rng.choice([1, 9, 9, 1000])
        self.alike: dict[int, int] | None = {} if rng.random() < 0.3 else None

    def ns(self, old: int = 1) -> int:
        """Return a time in place of another."""
        return self._in_place_of(old, self.times)

    def size(self, old: int = 1) -> int:
        """Return a size in bytes in place of another."""
        return self._in_place_of(old, self.sizes)

    def up_to(self, most: int, least: int = 0) -> int:
        """Return a number of a bounded field, large or small."""
        return min(most, max(least, round(10 ** self.rng.uniform(0, len(str(most))))))

    def rising(self, row: Sequence[int]) -> list[int]:
        """Return times in place of a table's, which begins with 0 and, mostly, never falls."""
        times = [self.ns(old) for old in row[1:]]
        return [0, *(times if self.rng.random() < 0.1 else sorted(times))]

    def room(self, sizes: Sequence[int]) -> int:
        """Return what some of the sizes take together, or 1 more or less, or a little more."""
        rng = self.rng
        share = rng.choice([0.3, 0.5, 0.7, 1.0])
        total = sum(size for size in sizes if rng.random() < share)
        little = rng.randint(0, total // rng.choice([4, 100, 10**6]) + 1)
        return max(0, total + rng.choice([0, 0, -1, 1, little, little]))

    def _in_place_of(self, old: int, usual: Sequence[int]) -> int:
        if self.alike is None:
            return self._drawn(old, usual)
        if old not in self.alike:
            self.alike[old] = self._drawn(old, usual)
        return self.alike[old]

    def _drawn(self, old: int, usual: Sequence[int]) -> int:
        rng = self.rng
        if old == 0 and rng.random() < 0.7:
            return 0
        number: int = getattr(self, "_" + self.law.replace(" ", "_"))(old, usual)
        if self.factor == 1 or not number:
            return number
        return max(0, int(number * self.factor) + rng.randint(-3, 3))

    def _decade(self, least: float, most: float) -> int:
        return int(10 ** self.rng.uniform(least, most))

    def _decades(self, _old: int, _usual: Sequence[int]) -> int:
        return self._decade(0, 12.6)

    def _primes(self, old: int, usual: Sequence[int]) -> int:
        return next(filter(is_prime, count(self._decades(old, usual))))

    def _bytes(self, _old: int, usual: Sequence[int]) -> int:
        rng, base = self.rng, self.rng.choice(usual)
        if rng.random() < 0.15:
            return self._decade(4, 10)
        away = rng.choice([0, 0, 99, base // 1000, base // 50])
        return max(0, base + rng.randint(-away, away))

    def _powers(self, _old: int, _usual: Sequence[int]) -> int:
        rng = self.rng
        if rng.random() < 0.25:
            return rng.randint(0, 24)
        power: int = 2 ** (self.first + rng.choice([0, 0, 1, 1, 2]))
        if rng.random() < 0.15:
            return power // 3
        if rng.random() < 0.15:
            return rng.randint(power // 4, power)
        return power + rng.choice([-3, -2, -1, 0, 1, 2, 3])

    def _almost_equal(self, _old: int, _usual: Sequence[int]) -> int:
        return max(0, self.bases[0] - self.rng.randint(0, self.spread))

    def _pairs(self, _old: int, _usual: Sequence[int]) -> int:
        return self.rng.choice(self.bases) + self.rng.choice([-1, 0, 0, 1])

    def _zeros(self, old: int, usual: Sequence[int]) -> int:
        of = self.rng.choice(["nothing", "nothing", "little", "much", "power"])
        if of in ("nothing", "little"):
            return self.rng.randint(0, 9) if of == "little" else 0
        return self._decade(9, 12.6) if of == "much" else self._powers(old, usual)

    def _scaled(self, old: int, _usual: Sequence[int]) -> int:
        away = self.scale // self.spread if self.spread > 1 else 1
        return old * self.scale + self.rng.randint(0, away)


def with_numbers(instance: Any, law: str, seed: int) -> Any:
    """Return an instance with numbers drawn again; those of a sum beyond its limit made smaller."""
    rng = random.Random(f"{law} {seed}")
    plain = rng.choice(PLAIN) if law == "near limits" else law
    again = rng.getrandbits(64)
    fields = type(instance).model_fields
    stated = instance.model_dump().items()
    kept = {name: of for name, of in stated if of is not None or fields[name].is_required()}
    kept |= {"name": f"{instance.name[:100]}, {law} {seed}", "schema_version": 1}
    kept.pop("quantum_ns", None)

    def made(exponent: float) -> Any:
        data = _copied(kept)
        redraw = REDRAWN[instance.problem]
        redraw(data, Numbers(random.Random(again), plain, 2.0**exponent))
        try:
            return type(instance).model_validate(data)
        except InputError:
            return None

    if law == "near limits":
        return _largest(made)
    for exponent in range(0, -80, -2):
        if (found := made(exponent)) is not None:
            return found
    raise ValueError(f"no numbers by {law!r} fit {instance.name}")


def _largest(made: Callable[[float], Any]) -> Any:
    """Return what is made of the largest exponent that the limits allow, or nearly."""
    low, high = -60.0, 60.0
    best = made(low)
    while high - low > 1e-3:
        middle = (low + high) / 2
        if (found := made(middle)) is None:
            high = middle
        else:
            low, best = middle, found
    return best


def _copied(value: Any) -> Any:
    """Return a copy of an instance's data, with lists in place of tuples."""
    if isinstance(value, dict):
        return {key: _copied(part) for key, part in value.items()}
    return [_copied(part) for part in value] if isinstance(value, list | tuple) else value


Data = dict[str, Any]


def placement(data: Data, numbers: Numbers) -> None:
    """Draw times, at times slots of up to 2^20 each, and what there is of them."""
    rng = numbers.rng
    for name in ("gpu_expert_ns", "offload_expert_ns"):
        data[name] = numbers.rising(data[name])
    for name in ("width_gpu_ns", "width_offload_ns"):
        if name in data:
            data[name] = [numbers.rising(table) for table in data[name]]
    data["layer_offload_fixed_ns"] = numbers.ns(data["layer_offload_fixed_ns"])
    if rng.random() < 0.3:
        largest = rng.choice([5, 1000, 2**20])
        rows = [[rng.randint(1, largest) for _ in range(data["experts"])]
                for _ in range(data["layers"])]  # fmt: skip
        sizes = [size for row in rows for size in row]
        data |= {"expert_slots": rows, "gpu_slots": numbers.room(sizes)}
        if "host_slots" in data:
            on_gpu = min(sum(sizes), data["gpu_slots"])
            data["host_slots"] = max(0, sum(sizes) - on_gpu + rng.choice([0, 1, on_gpu]))


def joint(data: Data, numbers: Numbers) -> None:
    """Draw times, bytes, losses, and budgets that some choice just keeps."""
    rng = numbers.rng
    for name in ("gpu_ns", "cpu_ns"):
        data[name] = [numbers.rising(table) for table in data[name]]
    for name in ("copy_ns", "shared_ns"):
        data[name] = [numbers.ns(old) for old in data[name]]
    data["hand_over_ns"] = numbers.ns(data["hand_over_ns"])
    data["expert_bytes"] = sorted(numbers.size(old) for old in data["expert_bytes"])
    losses: list[int] = []

    def loss(old: int) -> int:
        losses.append(numbers.ns(old))
        return losses[-1]

    for context in data["contexts"]:
        context["attention_ns"] = [numbers.ns(old) for old in context["attention_ns"]]
        context["step_ns"] = numbers.ns(context["step_ns"])
        context["kv_bytes"] = numbers.size(context["kv_bytes"])
        context["kv_loss"] = loss(context["kv_loss"])
    for step in data["steps"]:
        step[:] = [[[e, n, loss(old)] for e, n, old in layer] for layer in step]
    if "width_loss" in data:
        data["width_loss"] = [[[loss(old) for old in of] for of in row]
                              for row in data["width_loss"]]  # fmt: skip
    cells = [rng.choice(data["expert_bytes"]) for _ in range(data["layers"] * data["experts"])]
    data["gpu_bytes"] = numbers.room(cells) + rng.choice(data["contexts"])["kv_bytes"]
    if "host_bytes" in data:
        data["host_bytes"] = numbers.room(cells)
    if "max_loss" in data:
        data["max_loss"] = numbers.room(losses)


def cache(data: Data, numbers: Numbers) -> None:
    """Draw the five times."""
    for name in ("gpu_ns", "cpu_ns", "activation_ns", "fetch_ns", "other_ns"):
        data[name] = numbers.ns(data[name])


def bitwidth(data: Data, numbers: Numbers) -> None:
    """Draw losses, falling with the width or not, and at times how far they were rounded."""
    rng = numbers.rng
    falls = rng.random() < 0.5
    for layer in data["layers"]:
        for expert in layer["experts"]:
            loss = [numbers.ns(old) for old in expert["loss"]]
            expert["loss"] = sorted(loss, reverse=True) if falls else loss
            expert["importance"] = numbers.ns(expert["importance"])
        if rng.random() < 0.2:
            layer["loss_error"] = numbers.ns()


def deferral(data: Data, numbers: Numbers) -> None:
    """Draw times, penalties that never fall, and a limit that some choice just keeps."""
    rng = numbers.rng
    for name in ("attention_ns", "shared_ns", "sync_ns", "expert_cpu_ns"):
        data[name] = [numbers.ns(old) for old in data[name]]
    penalty = data["penalty"] = sorted(numbers.ns(old) for old in data["penalty"])
    if "max_total_penalty" in data:
        data["max_total_penalty"] = numbers.room(
            [rng.choice(penalty) for _ in range(data["layers"])]
        )


def balance(data: Data, numbers: Numbers) -> None:
    """Draw times, and in prefill at times a long sequence."""
    for name in ("activation_ns", "slice_transfer_ns"):
        data[name] = numbers.ns(data[name])
    for expert in data["experts"]:
        for name in ("slice_gpu_ns", "slice_ndp_ns"):
            expert[name] = numbers.ns(expert[name])
    if data["stage"] == "prefill" and numbers.rng.random() < 0.3:
        data["seq_len"] = numbers.up_to(2**20, 1)


def threads(data: Data, numbers: Numbers) -> None:
    """Draw times of parts, loads and pulls."""
    data["pull_ns"] = numbers.ns(data["pull_ns"])
    for expert in data["experts"]:
        expert["load_ns"] = numbers.ns(expert["load_ns"])
        parts = expert["part_ns"]
        expert["part_ns"] = [None if old is None else numbers.ns(old) for old in parts]


def replication(data: Data, numbers: Numbers) -> None:
    """Draw loads where the oracle need not share each token out, times, weights and costs."""
    rng = numbers.rng
    kernel = data.get("work") == "kernel"
    tokens_are_shared = kernel and data["split"] == "free"
    weighs = rng.random() < 0.3
    for window in data["windows"]:
        if not tokens_are_shared and not (kernel and rng.random() < 0.5):
            window["loads"] = [numbers.ns(old) for old in window["loads"]]
        if weighs:
            window["weight"] = numbers.up_to(2**16, 1)
    data["move_cost"] = numbers.ns(data["move_cost"])
    for name in ("read_ns", "token_ns") if kernel else ():
        data[name] = max(1, numbers.ns(data[name]))
    for name in ("pass_ns", "slot_cost") if kernel else ():
        data[name] = numbers.ns(data.get(name, 0))
    if "links" in data:
        data["links"] = [[numbers.ns(old) for old in row] for row in data["links"]]


def split(data: Data, numbers: Numbers) -> None:
    """Draw bytes, times and weights, and devices that some of the parts just fill."""
    rng = numbers.rng
    sizes = []
    for layer in data["layers"]:
        for name in [name for name in layer if name.endswith("_ns") and layer[name] is not None]:
            layer[name] = [None if old is None else numbers.ns(old) for old in layer[name]]
        for name in ("attention_bytes", "experts_bytes"):
            has = layer.get(name.replace("bytes", "ns")) is not None
            layer[name] = numbers.size(layer[name] or rng.randint(0, 1)) if has else 0
            sizes.append(layer[name])
    for device in data["devices"]:
        device["buffer"] = numbers.size(device["buffer"])
        device["capacity"] = numbers.room(sizes) + rng.choice([0, 1, 1]) * device["buffer"]
    for name in ("hop_ns", "prompt_hop_ns"):
        if name in data:
            data[name] = [[numbers.ns(old) for old in row] for row in data[name]]
    for name in ("decode_weight", "prompt_weight"):
        if rng.random() < 0.2:
            data[name] = numbers.up_to(10**4)


def _host_memory(data: Data, numbers: Numbers) -> None:
    """Draw a base load and odd shares where an instance has them."""
    if "gpu_base_ns" in data:
        data["gpu_base_ns"] = numbers.ns(data["gpu_base_ns"])
    if "dimm_share" in data:
        whole = numbers.up_to(1024, 1)
        data["dimm_share"] = [numbers.rng.randint(1, whole), whole]


PATHS = (
    *("gpu_hit_ns", "gpu_miss_striped_ns", "gpu_miss_localized_ns"),
    *("cpu_striped_ns", "cpu_localized_ns", "ndp_ns"),
)
PARTS = {
    "gpu_calc_ns": ("gpu_miss_striped_ns", "gpu_miss_localized_ns"),
    "pcie_striped_ns": ("gpu_miss_striped_ns",),
    "pcie_localized_ns": ("gpu_miss_localized_ns",),
}
"""The parts of a path, and the paths that are at least as long."""


def layout(data: Data, numbers: Numbers) -> None:
    """Draw costs, weights, and a memory with room for some copies."""
    rng = numbers.rng
    for name in ("dram_striped_ns", "dram_localized_ns"):
        data[name] = numbers.ns(data[name])
    _host_memory(data, numbers)
    for scenario in data["scenarios"]:
        if rng.random() < 0.3:
            scenario["weight"] = numbers.up_to(2**16, 1)
        for name in PATHS:
            scenario[name] = [numbers.ns(old) for old in scenario[name]]
        for name, wholes in PARTS.items():
            if name in scenario:
                most = [min(of) for of in zip(*(scenario[of] for of in wholes), strict=True)]
                old = scenario[name]
                scenario[name] = [min(numbers.ns(a), b) for a, b in zip(old, most, strict=True)]
    if "copies" in data:
        size = data["copies"]["expert_bytes"] = max(1, numbers.size())
        share = -(-size // data["dimms"])
        reserved = data["copies"]["reserved_bytes"] = numbers.size(rng.randint(0, 1))
        spare = rng.choice([0, share, size, size - 1, 2 * size, size + share - 1])
        data["copies"]["dimm_bytes"] = reserved + data["experts"] * share + max(0, spare)


def relayout(data: Data, numbers: Numbers) -> None:
    """Draw costs, and windows that some migrations just fit into."""
    rng = numbers.rng
    moves = ("prefetch_ns", "relayout_ns", "rebalance_ns")
    for name in ("dram_striped_ns", "dram_localized_ns", *moves):
        data[name] = numbers.ns(data[name])
    _host_memory(data, numbers)
    if "relayout_share_ns" in data:
        share = numbers.ns(data["relayout_share_ns"])
        data["relayout_share_ns"] = min(share, data["relayout_ns"])
    prefetch, relayout, rebalance = (data[name] for name in moves)
    off = rng.choice([-1, 0, 0, 1, numbers.ns()])
    data["pcie_window_ns"] = max(0, rng.randint(0, 2) * prefetch + off)
    off = rng.choice([-1, 0, 0, 1, numbers.ns()])
    link = rng.randint(0, 2) * relayout + rng.randint(0, 2) * rebalance
    data["dimm_link_window_ns"] = max(0, link + off)
    for expert in data["experts"]:
        for name in PATHS:
            expert[name] = numbers.ns(expert[name])
        for name, wholes in PARTS.items():
            if name in expert:
                # of a hit, too, the computation is a part
                more = ("gpu_hit_ns",) if name == "gpu_calc_ns" else ()
                most = min(expert[of] for of in (*wholes, *more))
                expert[name] = min(numbers.ns(expert[name]), most)


def tri_domain(data: Data, numbers: Numbers) -> None:
    """Draw the costs of every copy's paths."""
    _host_memory(data, numbers)
    for expert in data["experts"]:
        for lie in (expert, *expert.get("copies", ())):
            for name in ("gpu_ns", "cpu_ns", "ndp_ns", "gpu_dram_ns", "cpu_dram_ns"):
                if lie.get(name) is not None:
                    lie[name] = numbers.ns(lie[name])
            if expert["resident"]:
                lie["gpu_dram_ns"] = 0
            for name in ("gpu_calc_ns", "pcie_ns"):
                if name in lie:
                    lie[name] = min(numbers.ns(lie[name]), lie["gpu_ns"])
            if expert["resident"] and "pcie_ns" in lie:
                lie["pcie_ns"] = 0


def model_files(seed: int) -> Split:
    """Return a split of 2 to 4 layers on 2 or 3 devices, as a model's file states its bytes.

    Layers differ by parts of a percent, as quantised ones do, in bytes and in ns; each device has
    room for some of them, with a buffer that is no multiple of anything.
    """
    rng = random.Random(f"model files {seed}")
    count, rows = rng.choice([(2, 3), (2, 4), (2, 4), (2, 5), (3, 2), (3, 3)])
    base = int(10 ** rng.uniform(8.3, 10))
    attention, away = base // rng.randint(4, 20), rng.choice([200, 1000])
    kinds = [base, *(base - rng.randint(1, base // away) for _ in range(2))]
    small = [attention, *(attention - rng.randint(0, attention // away) for _ in range(2))]
    # by device: a GPU's times, and those of slower ones
    slow = [1, *(rng.randint(2, 17) for _ in range(count - 1))]
    rng.shuffle(slow)
    of_experts, of_attention = int(10 ** rng.uniform(4, 6)), int(10 ** rng.uniform(3, 5))
    off = rng.choice([0, 1, 99, 1000])

    def times(ns: int) -> list[int]:
        return [factor * ns - rng.randint(0, min(off, ns // 2)) for factor in slow]

    layers = [
        {
            "attention_ns": times(of_attention),
            "attention_bytes": rng.choice(small[: rng.choice([1, 3])]),
            "experts_ns": times(of_experts),
            "experts_bytes": rng.choice(kinds),
        }
        for _ in range(rows)
    ]
    if rng.random() < 0.2:
        for layer in layers:
            layer["prompt_attention_ns"] = times(of_attention)
            layer["prompt_experts_ns"] = times(of_experts)
    total = sum(layer["attention_bytes"] + layer["experts_bytes"] for layer in layers)
    devices = []
    for device in range(count):
        buffer = rng.choice([0, rng.randint(1, attention * 6)])
        share = rng.choice([0.3, 0.5, 0.9, 1.1])
        devices.append(
            {
                "name": f"d{device}",
                "capacity": buffer + int(total * share) + rng.randint(-99, 99),
                "buffer": buffer,
            }
        )
    hop = rng.choice([0, int(10 ** rng.uniform(3, 5))])
    return Split(
        name=f"model files {seed}",
        source=rng.randrange(count),
        order=rng.choice([None, list(range(count))]),
        devices=devices,
        hop_ns=[[rng.randint(0, hop) * (i != j) for j in range(count)] for i in range(count)],
        decode_weight=rng.choice([1, 1, 100]),
        prompt_weight=rng.choice([0, 1, 7]),
        layers=layers,
    )


REDRAWN: Mapping[str, Callable[[Data, Numbers], None]] = {
    of.__name__: of
    for of in (
        *(placement, joint, cache, bitwidth, deferral, balance),
        *(replication, split, layout, relayout, tri_domain, threads),
    )
}
"""Problem -> what draws the numbers of its data again."""
