"""The clock: against tasks started one after the other, and layers counted by hand."""

import random
from typing import Any

import numpy as np
import pytest

from tests.rooms.systems import DIMM_LINK, PCIE, Begin, Clock, LayerWork, OnGpu, Transfer
from tests.shares import shares
from tests.systems.by_tasks import Item, Layer, execute

DIMMS = 3


def some(rng: random.Random, most: int = 50) -> int:
    """Return a length of time; often none."""
    return rng.choice([0, rng.randint(1, most)])


def random_layer(rng: random.Random) -> Layer:
    """Return a layer that uses any of the resources."""
    rows = [[some(rng) for _ in range(DIMMS)] for _ in range(4)]
    uploads, cpu_reads, later_reads, units = rows
    on_cpu = rng.random() < 0.7
    kv = some(rng)
    items = [
        Item(rng.randint(1, 30), 0, rng.choice([0, 0, rng.randint(1, 300)]))
        for _ in range(rng.randrange(3))
    ]
    items += [Item(rng.randint(1, 30), rng.randint(1, 60)) for _ in range(rng.randrange(4))]
    return Layer(
        begin=Begin(rng.randint(1, 40), kv, some(rng) if kv else 0),
        items=items,
        upload_reads=uploads,
        cpu_reads=cpu_reads,
        later_reads=later_reads if on_cpu else [0] * DIMMS,
        units=units,
        shared=some(rng),
        on_cpu=on_cpu,
        cpu=some(rng) if on_cpu else 0,
        cpu_later=some(rng) if on_cpu else 0,
        to_host=some(rng, 5),
        to_gpu=some(rng, 5),
        units_delay=some(rng, 5),
        moves=[(rng.choice([PCIE, DIMM_LINK]), rng.randint(1, 60)) for _ in range(some(rng, 2))],
        copies=[rng.randint(1, 60) for _ in range(some(rng, 2))],
        early=rng.random() < 0.2,
    )


def at_dimms(lengths: list[int]) -> Any:
    return np.array(lengths, dtype=np.int64) if any(lengths) else None


def as_work(layer: Layer) -> LayerWork:
    """Return what the clock is told of a layer."""
    columns = [[getattr(item, name) for item in layer.items] for name in Item.__annotations__]
    compute, upload, ready = (np.array(column, dtype=np.int64) for column in columns)
    return LayerWork(
        gpu=OnGpu.of(compute, upload, ready),
        gpu_reads_ns=at_dimms(layer.upload_reads),
        cpu_reads_ns=at_dimms(layer.cpu_reads),
        later_reads_ns=at_dimms(layer.later_reads),
        ndp_ns=at_dimms(layer.units),
        shared_ns=layer.shared,
        on_cpu=layer.on_cpu,
        cpu_ns=layer.cpu,
        cpu_later_ns=layer.cpu_later,
        to_host_ns=layer.to_host,
        to_gpu_ns=layer.to_gpu,
        ndp_delay_ns=layer.units_delay,
        moves=[Transfer(link, length, "prefetch", 0) for link, length in layer.moves],
        copies=list(enumerate(layer.copies)),
        uploads_early=layer.early,
    )


@pytest.mark.parametrize("seeds", shares(25, 100))
def test_sums_are_what_tasks_one_after_the_other_take(seeds: range) -> None:
    """Ends of layers and copies, and how long everything is busy, over eight layers."""
    for seed in seeds:
        rng = random.Random(seed)
        layers = [random_layer(rng) for _ in range(8)]
        clock = Clock(DIMMS)
        ends, copied = [], []
        for layer in layers:
            routed, _ = clock.begin(layer.begin)
            made = clock.run(routed, as_work(layer))
            ends.append(clock.now_ns)
            copied.append([made[number] for number in range(len(layer.copies))])
        expected, copies, busy = execute(layers, DIMMS)
        assert ends == expected
        assert copied == copies
        assert clock.gpu_busy_ns == busy.get("gpu", 0)
        assert clock.cpu_busy_ns == busy.get("cpu", 0)
        assert clock.dimm_busy_ns.tolist() == [busy.get(f"dimm {d}", 0) for d in range(DIMMS)]
        for link in (PCIE, DIMM_LINK):
            assert clock.link_busy_ns.get(link, 0) == busy.get(link, 0) <= clock.end_ns
        assert max(clock.gpu_busy_ns, clock.cpu_busy_ns, *clock.dimm_busy_ns) <= clock.end_ns


def test_an_upload_runs_beside_what_is_there() -> None:
    """One expert is resident for 30, another is uploaded in 50 and then takes 20."""
    clock = Clock(1)
    routed, _ = clock.begin(Begin(10))
    clock.run(routed, LayerWork(gpu=OnGpu.of(np.array([30, 20]), np.array([0, 50]))))
    assert clock.now_ns == 10 + 50 + 20
    assert clock.link_busy_ns == {PCIE: 50}


def test_what_is_uploaded_ahead_begins_only_on_an_idle_link() -> None:
    """Two wait; the first starts before the next layer's experts are known, the second does not."""
    clock = Clock(1)
    routed, _ = clock.begin(Begin(10))
    clock.run(routed, LayerWork(gpu=OnGpu(total_ns=20), ahead=[(7, 100), (8, 100)]))
    assert clock.now_ns == 30
    routed, there = clock.begin(Begin(10))
    assert (routed, there) == (40, {7: 110})
    assert clock.pcie_free_ns == 110


def test_a_cache_on_the_host_is_attentions_too() -> None:
    """Attention ends with its cache's way over PCIe, which keeps uploads waiting."""
    clock = Clock(2)
    routed, _ = clock.begin(Begin(10, 25, 40))
    assert routed == 25
    clock.run(routed, LayerWork(ndp_ns=np.array([5, 0])))
    assert clock.now_ns == 40 + 5
    assert clock.dimm_busy_ns.tolist() == [45, 40]


def test_deferred_work_is_due_one_layer_later() -> None:
    """The layer that defers ends at once, the one after waits."""
    clock = Clock(1)
    routed, _ = clock.begin(Begin(10))
    clock.run(routed, LayerWork(on_cpu=True, cpu_later_ns=100))
    assert clock.now_ns == 10
    routed, _ = clock.begin(Begin(10))
    clock.run(routed, LayerWork())
    assert clock.now_ns == 110
