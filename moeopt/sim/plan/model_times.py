"""What a plan's steps cost besides routed experts, by the cost model instead of by numbers."""

from moeopt.sim.machines.cost import DEFAULT_QUANTUM_NS, to_quanta
from moeopt.sim.machines.layer_cost import layer_costs
from moeopt.sim.machines.machine import Machine
from moeopt.sim.models.model_shape import ModelShape
from moeopt.sim.plan.schema import Times


def times_of_model(
    machine: Machine,
    model: ModelShape,
    tokens: int,
    context: int,
    quantum_ns: int = DEFAULT_QUANTUM_NS,
) -> Times:
    """Return attention, shared experts, hand-overs, and once per step dense layers and head.

    Parameters
    ----------
    tokens
        Tokens in a step.
    context
        Tokens in the KV cache of each of them.
    quantum_ns
        Every time is rounded up to a multiple of this.

    Raises
    ------
    InputError
        As `moeopt.sim.machines.layer_cost.layer_costs`, whose assumptions these times have.
    """
    cost = layer_costs(machine, model, tokens, context, quantum_ns)
    dense_layers = model.layers - len(model.moe_layers)
    fixed = int(to_quanta((machine.require_gpu().step_fixed_us or 0.0) * 1e3, quantum_ns))
    return Times(
        attention_ns=(cost.attention_ns,),
        shared_ns=(cost.shared_ns,),
        to_host_ns=(cost.sync_ns,),
        to_gpu_ns=(cost.sync_ns,),
        step_ns=dense_layers * (cost.attention_ns + cost.dense_ns) + cost.head_ns + fixed,
    )
