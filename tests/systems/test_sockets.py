"""Two sockets: slices, spread pages or whole experts on each, and what kernels reach (3.3)."""

from typing import Any

import numpy as np
import pytest

import moeopt
from moeopt import InputError
from tests.rooms.sim import by_socket_ns, check_sockets, combined_s, get_model, socket_of
from tests.rooms.systems import on_threads_ns

MACHINE, MODEL = "ktransformers-a100", "deepseek-v2-lite"
GIVEN = {"workload": "trimoe-skew", "batch": 1, "prompt": 64, "output": 4, "layers": 2}


def only(system: str, machine: str = MACHINE, **given: object) -> Any:
    """Return the row of one system."""
    how: dict[str, Any] = GIVEN | {"exact": "none"} | given
    [row] = moeopt.compare(machine, MODEL, systems=[system], **how).rows
    return row


@pytest.mark.parametrize("prompt", [0, 64])
def test_slices_are_fastest_and_spread_pages_slower(prompt: int) -> None:
    """In decoding by what the sockets read; in prompts of few tokens as well."""
    slices, pages, whole = (
        only(f"ktransformers[sockets={mode}]", prompt=prompt)
        for mode in ("tensor-parallel", "interleaved", "expert-parallel")
    )
    for other in (pages, whole):
        assert other.mean_ms > slices.mean_ms
        if prompt:
            assert other.prefill_s > slices.prefill_s


def test_systems_use_sockets_as_published() -> None:
    """Fiddler and llama.cpp read evenly spread pages; on one socket nothing differs."""
    for system in ("fiddler", "llama.cpp", "ktransformers"):
        expected = "tensor-parallel" if system == "ktransformers" else "interleaved"
        assert only(system).run.state.world.sockets == expected
        assert only(system).mean_ms == only(f"{system}[sockets={expected}]").mean_ms
        assert only(system, "trimoe").run.state.world.sockets == "tensor-parallel"


def test_the_busiest_socket_decides() -> None:
    """Whole experts: with all on one socket a layer takes twice as long, on both as long."""
    world = only("ktransformers[sockets=expert-parallel]").run.state.world
    alike = only("ktransformers").run.state.world
    lengths = np.array([30_000, 20_000, 40_000])
    for expert, share in (([0, 1, 2], 2 * 90), ([0, 1, 63], 2 * 50), ([0, 40, 63], 2 * 60)):
        found = world.cpu_ns(np.array(expert), lengths, 1)
        assert found == share * 1000 + world.combined_ns(1)
    assert alike.cpu_ns(np.arange(3), lengths, 1) == 90_000 + alike.combined_ns(1)
    reads = world.cpu_reads_ns(np.array([0, 63]), np.array([-1, -1]), np.array([10, 30]))
    assert reads.tolist() == [20] * 8 + [60] * 8
    assert alike.cpu_reads_ns(np.array([0, 63]), np.array([-1, -1]), np.array([10, 30])).sum() == (
        40 * 16
    )


def test_threads_of_a_socket_have_its_experts() -> None:
    """Of prompts too: uneven sockets are slower than even ones, and than slices."""
    world = only("ktransformers[sockets=expert-parallel]").run.state.world
    even, uneven = np.zeros((2, 64), dtype=np.int64)
    even[[0, 1, 62, 63]] = uneven[[0, 1, 2, 3]] = 400
    for tasks in ("dynamic", "static-all-threads"):
        assert on_threads_ns(world, uneven, tasks) > 1.5 * on_threads_ns(world, even, tasks)


def test_kernels_are_felt_in_prompts() -> None:
    """5.4 and 1.8 of 21.3 TFLOPS; decoding waits for reads whatever they reach."""
    rows = {
        name: only(f"fiddler[cpu_kernels={name}]", prompt=2048, gpu_expert_gib=0.0, layers=1)
        for name in ("the machine's", "oneDNN", "AVX-512")
    }
    seconds = [row.prefill_s for row in rows.values()]
    assert seconds == sorted(seconds)
    assert seconds[0] < seconds[1]


def test_sockets_that_a_machine_lacks_are_refused() -> None:
    for mode in ("interleaved", "expert-parallel"):
        row = only(f"ktransformers[sockets={mode}]", "trimoe")
        assert row.run is None
        said = "sockets: must be tensor-parallel on trimoe, which has fewer than two nodes"
        assert row.reason == f"{said}, not {mode}"
    machine = moeopt.get_machine(MACHINE)
    other = machine.nodes[1].with_memory(gb_s=100.0)
    check_sockets(machine.with_devices(other), "interleaved")
    with pytest.raises(InputError, match="expert-parallel needs nodes that are alike"):
        check_sockets(machine.with_devices(other), "expert-parallel")
    with pytest.raises(InputError, match="monde takes no assumption"):
        only("monde[sockets=interleaved]")


def test_outputs_are_put_together_over_the_link() -> None:
    """Half of each token's 2,048 numbers of two bytes, at 125 GB/s."""
    machine, model = moeopt.get_machine(MACHINE), get_model(MODEL)
    expected = 1000 * 2048 * 2 / 2 / 125e9
    assert combined_s(machine, model, 1000, "tensor-parallel") == pytest.approx(expected)
    assert combined_s(machine, model, 1000, "interleaved") == 0
    assert combined_s(moeopt.get_machine("trimoe"), model, 1000, "tensor-parallel") == 0
    assert socket_of(np.arange(6), 6, 2).tolist() == [0, 0, 0, 1, 1, 1]
    assert by_socket_ns(np.array([5, 7]), np.array([0, 5]), 6, 3).tolist() == [15, 0, 21]
