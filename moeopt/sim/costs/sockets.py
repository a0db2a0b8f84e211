"""What several sockets take together, by how experts lie over them (KTransformers 2.3, 3.3).

Each socket is a node of the machine. What a mode changes:

==================  ==========================  ==============================  ===============
mode                an expert is computed by    its weights are read            at the end
==================  ==========================  ==============================  ===============
tensor-parallel     all, a slice each           from each socket's own memory   reduce-scatter
interleaved         all, half from either       half of them over the link      nothing
expert-parallel     the socket that holds it    from its memory                 reduce-scatter
==================  ==========================  ==============================  ===============

Costs of single experts are those of all sockets together (`moeopt.sim.costs.step`). Where each
expert has a socket, that one takes as many times longer as there are sockets, and the layer is done
when the busiest one is: "this strategy often leaves some sockets idle and others saturated" (3.3).
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.sim.machines.cores import NumaMode
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape

Integers = NDArray[np.int64]

Sockets = Literal["tensor-parallel", "interleaved", "expert-parallel"]
"""How experts lie over sockets, and who computes them."""

READ_AS: dict[Sockets, NumaMode] = {
    "tensor-parallel": "tensor-parallel",
    "interleaved": "interleaved",
    "expert-parallel": "tensor-parallel",
}
"""Mode -> how the cores of all sockets together read (`moeopt.sim.machines.cores`)."""

OUTPUT_BYTES = 2
"""Of a number of a partial sum, which are BF16."""


def check_sockets(machine: Machine, sockets: Sockets) -> None:
    """Refuse a mode that needs sockets which the machine lacks, or alike ones.

    Raises
    ------
    InputError
        If a mode other than "tensor-parallel" is asked for with fewer than two nodes, or
        "expert-parallel" with nodes that differ.
    """
    if sockets == "tensor-parallel":
        return
    if len(machine.nodes) < 2:
        said = f"must be tensor-parallel on {machine.name}, which has fewer than two nodes"
        raise InputError(f"{said}, not {sockets}", field="sockets")
    kinds = {node.model_copy(update={"id": "numa0"}).model_dump_json() for node in machine.nodes}
    if sockets == "expert-parallel" and len(kinds) > 1:
        said = f"needs nodes that are alike, and those of {machine.name} differ"
        raise InputError(f"expert-parallel {said}", field="sockets")


def socket_of(expert: Integers, experts: int, sockets: int) -> Integers:
    """Return the socket of each expert: the first ones on the first, as many on each.

    Parameters
    ----------
    expert
        Numbers, shape (n,).
    experts, sockets
        How many a layer has, and the machine.
    """
    return np.asarray(expert * sockets // experts)


def by_socket_ns(lengths_ns: Integers, expert: Integers, experts: int, sockets: int) -> Integers:
    """Return how long each socket is busy with the experts that it holds, shape (sockets,).

    Parameters
    ----------
    lengths_ns
        Of each expert, what all sockets together would take; shape (n,).
    expert
        Its number, shape (n,).
    """
    total = np.zeros(sockets, dtype=np.int64)
    np.add.at(total, socket_of(expert, experts, sockets), lengths_ns * sockets)
    return total


def combined_s(machine: Machine, model: ModelShape, tokens: int, sockets: Sockets) -> float:
    """Return how long the reduce-scatter of partial outputs takes, in s (KTransformers 3.3).

    Of each token every socket has a sum over its slices or experts, and hands on all of it but its
    own part. Without a stated link between the first two sockets it takes no time.
    """
    nodes: Sequence[object] = machine.nodes
    if sockets == "interleaved" or len(nodes) < 2:
        return 0.0
    link = machine.between(machine.nodes[0].id, machine.nodes[1].id)
    if link is None:
        return 0.0
    size = tokens * model.hidden_size * OUTPUT_BYTES * (len(nodes) - 1) / len(nodes)
    return link.transfer_s(size)
