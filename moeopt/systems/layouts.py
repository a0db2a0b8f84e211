"""TriMoE's offline layout of a layer, by the heuristic of the problem `layout`."""

import numpy as np

from moeopt.problems.layout.generate import Options, of_loads
from moeopt.problems.layout.heuristics import trimoe_layout_tuned
from moeopt.problems.layout.instance import Instance
from moeopt.problems.tri_domain.layout_rule import STRIPED
from moeopt.sim.source import Source

from .work import Integers
from .world import World


def source_of(world: World) -> Source:
    """Return what instances of a world are generated from."""
    return Source(
        world.machine,
        world.model,
        quantum_ns=world.quantum_ns,
        overheads=world.costs.overheads,
    )


def layout_instance(world: World, loads: list[Integers], slots: int) -> Instance:
    """Return the instance of `layout` for a layer's loads, the GPU's uploads beside its work."""
    options = Options(hbm_slots=slots, dimms=world.dimms, batch=world.batch, gpu_work="two parts")
    return of_loads(source_of(world), options, loads, world.model.name)


def tuned_layout(world: World, load: Integers, slots: int) -> Integers:
    """Return the DIMM of each expert, `STRIPED` for striped ones, as TriMoE lays them out (4.3).

    Experts that the profile never saw fill up the emptiest DIMMs.
    """
    if not load.any():
        return np.arange(world.experts) % world.dimms
    found = trimoe_layout_tuned(layout_instance(world, [load], slots))
    place = np.array([STRIPED if dimm is None else dimm for dimm in found.dimm])
    held = np.bincount(place[place >= 0], minlength=world.dimms)
    for expert in np.flatnonzero(load == 0):
        place[expert] = held.argmin()
        held[place[expert]] += 1
    return place
