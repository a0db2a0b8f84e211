"""llama.cpp's split by layers: all experts of some layers on the GPU, the others on the CPU.

As `-ngl` and `-ncmoe` do it: `-ncmoe N` leaves the experts of the first N layers on the CPU.
Routing and popularity play no part. Settled: attention of all layers is on the GPU.
"""

from moeopt.sim.plan.schema import Plan


def plan(layers: int, experts: int, slots: int) -> Plan:
    """Return the plan with the last layers whole on the GPU, as many as fit.

    Parameters
    ----------
    layers, experts
        Of the model.
    slots
        Experts that fit into the GPU's memory.
    """
    whole = min(layers, slots // experts)
    everything = tuple(range(experts))
    resident = tuple(everything if layer >= layers - whole else () for layer in range(layers))
    return Plan(name="llama.cpp layer split", resident=resident, policy="cpu-for-misses")
