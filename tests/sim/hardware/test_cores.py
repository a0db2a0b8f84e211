"""What the cores of several nodes read and compute together, by how weights lie."""

import numpy as np
import pytest

from moeopt import get_machine, set_machine
from tests.rooms.sim import (
    Machine,
    cores_of,
    get_model,
    step_costs,
)


@pytest.fixture
def two() -> Machine:
    """Return two sockets of 220 GB/s with 125 GB/s between them, 36 cores and 1,000 GiB each."""
    return get_machine("ktransformers-a100")


@pytest.mark.parametrize(
    ("numa", "local_gb_s", "read_gb_s", "capacity_gib", "threads", "tflops"),
    [
        ("tensor-parallel", 440.0, 440.0, 2000.0, 72, 42.6),  # 2 x 220, 2 x 21.3
        ("first-touch", 440.0, 440.0, 2000.0, 72, 42.6),
        ("nodes", 440.0, 440.0, 2000.0, 72, 42.6),
        ("mirrored", 440.0, 440.0, 1000.0, 72, 42.6),
        ("isolate", 220.0, 220.0, 1000.0, 36, 21.3),
        ("interleaved", 440.0, 318.84, 2000.0, 72, 42.6),  # 2 / (0.5 / 220 + 0.5 / 125)
        ("one-computes", 220.0, 159.42, 2000.0, 36, 21.3),
    ],
)
def test_sockets_read_and_compute_as_the_weights_are_placed(
    two: Machine,
    numa: str,
    local_gb_s: float,
    read_gb_s: float,
    capacity_gib: float,
    threads: int,
    tflops: float,
) -> None:
    """KTransformers 2.3 and 3.3, with the bandwidths measured in 6.1."""
    cores = cores_of(two, numa)  # type: ignore[arg-type]  # pytest knows no literals
    assert cores.local_gb_s == local_gb_s
    assert cores.read_gb_s == pytest.approx(read_gb_s, abs=0.01)
    assert (cores.capacity_gib, cores.threads) == (capacity_gib, threads)
    assert float(cores.rate_tflops(512)) == pytest.approx(tflops)
    model = get_model("deepseek-v3")
    seconds = step_costs(two, model, numa=numa).cpu_read_s("striped")  # type: ignore[arg-type]
    assert seconds == pytest.approx(model.expert_bytes / (read_gb_s * 0.77e9), rel=1e-4)


@pytest.mark.parametrize(
    "numa",
    [
        *("interleaved", "tensor-parallel", "first-touch", "nodes", "mirrored", "isolate"),
        "one-computes",
    ],
)
def test_one_node_is_the_same_in_every_mode(numa: str) -> None:
    """There is nothing to spread."""
    machine = get_machine("rtx4090+epyc-9004")
    cores = cores_of(machine, numa)  # type: ignore[arg-type]
    assert cores == cores_of(machine, "interleaved")
    assert cores.local_gb_s == cores.read_gb_s == pytest.approx(460.8 * 0.8)


def test_fewer_threads_compute_in_proportion_and_read_as_much(two: Machine) -> None:
    """Half of 72 cores: half of the rate."""
    half, whole = cores_of(two, "tensor-parallel", 36), cores_of(two, "tensor-parallel")
    assert (half.threads, half.share, half.read_gb_s) == (36, 0.5, whole.read_gb_s)
    assert half.rate_tflops([1, 512]) == pytest.approx(whole.rate_tflops([1, 512]) / 2)


def test_unequal_nodes_add_and_each_reads_at_its_own_rate(two: Machine) -> None:
    """By hand: 110 and 220 GB/s, the slower is read at 110 from afar as well."""
    fields = {"devices.numa1.memory.gb_s": 110.0, "devices.numa1.cpu.tflops": 1.0}
    machine = set_machine(two, fields)
    cores = cores_of(machine, "interleaved")
    # numa0: half at 220, half at min(110, 125); numa1: half at 110, half at min(220, 125)
    read = 1 / (0.5 / 220 + 0.5 / 110) + 1 / (0.5 / 110 + 0.5 / 125)
    assert cores.read_gb_s == pytest.approx(read)
    assert cores.local_gb_s == 330
    assert cores_of(machine, "isolate").local_gb_s == 220
    few = two.nodes[0].only("cpu").rate_tflops([1, 100])
    assert cores.rate_tflops([1, 100]) == pytest.approx(few + np.array([6.0, 1.0]))


def test_what_one_node_does_not_state_nobody_adds(two: Machine) -> None:
    """Neither a sum of capacities nor one of cores is guessed."""
    host = two.device("numa1").with_memory(capacity_gib=None).with_part("cpu", cores=None)
    machine = two.with_devices(host)
    cores = cores_of(machine, "tensor-parallel")
    assert (cores.capacity_gib, cores.threads, cores.share) == (None, None, 1.0)
    alone = cores_of(machine, "isolate")
    assert (alone.capacity_gib, alone.threads) == (1000.0, 36)


def test_a_cpu_reads_at_most_what_it_can_of_a_shared_memory() -> None:
    """DGX Spark and Ryzen AI Max: the GPU reaches more of the same memory."""
    machine = get_machine("dgx-spark")
    node = machine.nodes[0]
    most = node.only("cpu").most_gb_s
    assert most is not None
    assert cores_of(machine, "interleaved").read_gb_s == most < node.memory.gb_s
    slower = set_machine(machine, {"gpu.gb_s": most / 2, "gpu.reached": None})
    assert cores_of(slower, "interleaved").read_gb_s == most / 2
