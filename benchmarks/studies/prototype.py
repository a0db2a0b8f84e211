"""The figures of a prototype that systems were defined by, step by step from ours to its.

    python benchmarks/studies/prototype.py --traces DIR

What an average layer's experts take in us: DeepSeek-V2-Lite on `trimoe`, 64 requests, 32 steps,
ESFT's "law". Columns: the prototype, ours, ours with times rounded up to its 5 us (a read of an
expert by the CPU is 58 us and becomes 60), and with the one choice that explains most of what is
left.
"""

import argparse
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import moeopt
from benchmarks.rooms.balance import framework
from benchmarks.rooms.systems import (
    Assignment,
    EdgeGpuNdp,
    LayerWork,
    MoNDE,
    Readers,
    RunState,
    System,
    World,
    execute,
    expected,
    get_system,
    hottest_of_each,
    idle,
    monde,
    slices_instance,
    slices_of,
    work_of_slices,
)

QUANTUM_NS = 5000

PROTOTYPE = {
    "ktransformers": 3737,
    "collaborative": 3291,
    "fiddler": 3257,
    "enhanced-ktransformers": 3257,
    "hybrimoe": 3257,
    "klotski": 14_949,
    "monde": 1902,
    "monde[hot_count=this step]": 1679,
    "trimoe": 1480,
    "edge-gpu-ndp": 1474,
}
"""Its figures. The second of MoNDE is its oracle, which is the best number in each step."""


class MoNDEWithResidents(MoNDE):
    """MoNDE beside the experts that the GPU's memory holds in the other systems.

    With the best number of uploads in each step.
    """

    def prepare(self, world: World, seen: Readers) -> RunState:
        """Keep the most popular experts of each layer on the GPU."""
        state = super().prepare(world, seen)
        state.resident = hottest_of_each(expected(world, seen), world.slots_per_layer)
        return state

    def route(self, state: RunState, layer: int, tokens: NDArray[np.int64]) -> Assignment:
        """Upload as many of the others as is best for the tokens that come."""
        return Assignment(idle(monde(state.offer(layer, tokens))[0], tokens))


class RoundedSlices(EdgeGpuNdp):
    """Edge GPU-NDP with the time of each slice rounded up, as that of a whole expert is."""

    def work(
        self, state: RunState, layer: int, tokens: NDArray[np.int64], made: Assignment
    ) -> LayerWork:
        """Return the work of the slices that the equations give each device."""
        instance = slices_instance(state, layer, tokens)
        names = ("slice_gpu_ns", "slice_ndp_ns")
        experts = tuple(
            one.model_copy(update={name: _up(getattr(one, name)) for name in names})
            for one in instance.experts
        )
        moved = {"slice_transfer_ns": _up(instance.slice_transfer_ns), "experts": experts}
        rounded = instance.model_copy(update=moved)
        return work_of_slices(state.world, slices_of(rounded, framework(rounded)))


def without_prefetch(name: str) -> System:
    """Return a system that uploads nothing ahead."""
    base = type(get_system(name))

    class Plain(base):  # type: ignore[misc, valid-type]  # a class of its own for each
        def route(self, state: RunState, layer: int, tokens: NDArray[np.int64]) -> Assignment:
            return replace(super().route(state, layer, tokens), ahead=())

    return Plain()


PREFETCHING = ("enhanced-ktransformers", "hybrimoe", "klotski")
OTHERWISE = {name: ("without prefetch", without_prefetch(name)) for name in PREFETCHING} | {
    "monde[hot_count=this step]": ("with the budget's residents", MoNDEWithResidents()),
    "edge-gpu-ndp": ("with rounded slices", RoundedSlices()),
}
"""What the prototype did otherwise, as far as its figures tell."""


def rows(trace: Path) -> Iterator[tuple[str, int, int, int, str]]:
    """Yield each system with the prototype's figure, ours, ours rounded, and what is left."""
    asked = {"batch": 64, "steps": 32, "exact": "none"}
    ours = moeopt.compare("trimoe", "deepseek-v2-lite", trace, systems=",".join(PROTOTYPE), **asked)
    for row in ours.rows:
        assert row.run is not None
        assert row.run.state is not None
        state = row.run.state
        world = replace(state.world, quantum_ns=QUANTUM_NS, cache={})

        def taken(system: System, world: World = world, state: RunState = state) -> int:
            return round(execute(system, world, state.readers).experts_ns.mean() / 1e3)

        how, system = OTHERWISE.get(row.system, ("", None))
        last = "" if system is None else f"{taken(system):,} {how}"
        exact = taken(get_system(row.system))
        yield row.system, PROTOTYPE[row.system], round(row.run.experts_ns.mean() / 1e3), exact, last


def _up(length_ns: int) -> int:
    return -(-length_ns // QUANTUM_NS) * QUANTUM_NS


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--traces", type=Path, required=True)
    options = parser.parse_args()
    print("| system | prototype | ours | at 5 us | and |\n|---|---:|---:|---:|---:|")
    for system, prototype, ours, rounded, last in rows(
        options.traces / "esft_deepseek_v2_lite" / "law.npz"
    ):
        print(f"| `{system}` | {prototype:,} | {ours:,} | {rounded:,} | {last} |")


if __name__ == "__main__":
    main()
