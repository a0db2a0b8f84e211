"""Lower bounds on the makespan that need no solver, each with its proof.

Notation: expert i run in domain o, which TD-C2 allows, keeps device r busy for p[i,o,r] ns, where
the devices are the GPU (TD-C3), the CPU (TD-C4) and each DIMM (TD-C5), TriMoE Eq. 5 and 6, and in
schema 2 each memory channel (TD-C6) and the PCIe link (TD-C7). The GPU has its base load on top.
With copies (schema 2) o is a domain and a copy together; arrays have one entry per copy, and each
expert's least is over the entries of all its copies.
"""

from .instance import Instance


def lower_bound(instance: Instance) -> int:
    """Return the best of this module's bounds."""
    return max(
        longest_expert_ns(instance),
        busiest_dimm_ns(instance),
        busiest_channel_ns(instance),
        lagrangian_bound_ns(instance),
    )


def objective_grid(instance: Instance) -> int:
    """Return a number that every makespan is a multiple of: the times' greatest common divisor."""
    return instance.modes.grid


def longest_expert_ns(instance: Instance) -> int:
    """Return the bound by the expert that is long wherever it runs.

    Proof. Run in domain o, expert i alone keeps some device busy for max_r p[i,o,r], on the GPU
    after its base load, and the makespan is at least that. It runs in one of its domains, so the
    makespan is at least the least of them.
    """
    return instance.modes.longest_expert()


def busiest_dimm_ns(instance: Instance) -> int:
    """Return the bound by the DIMM whose unavoidable work is largest.

    Proof. Whatever its domain, expert i keeps each DIMM it lies on busy for at least
    min_o p[i,o,d]; DIMM d's load is a sum over experts, so it is at least the sum of those minima.
    One with several copies counts for nothing: it may be elsewhere.
    """
    return instance.modes.unavoidable("dimm")


def busiest_channel_ns(instance: Instance) -> int:
    """Return the bound by the reads of striped experts, which keep every channel busy.

    Proof. A striped expert runs on a host (TD-C2), which reads it for at least min_o p[i,o,c] on
    every channel c; what a localized expert adds may be nothing, on its NDP unit. 0 without
    channels, and 0 without striped experts. Experts with copies count for nothing.
    """
    return instance.modes.unavoidable("channel")


def lagrangian_bound_ns(instance: Instance) -> int:
    """Return the Lagrangian bound: TD-C3 to TD-C7 relaxed, see `ModeTable.lagrangian_bound`."""
    return instance.modes.lagrangian_bound()
