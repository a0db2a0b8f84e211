"""What a runtime's terms cost on a machine: calibrated there, else as its profile says."""

from moeopt.sim.machines.machine import Machine
from moeopt.sim.machines.runtimes.profile import Certainty, RuntimeProfile, Within, as_vector
from moeopt.sim.machines.runtimes.terms import Vector
from moeopt.sim.models.model_shape import ModelShape


def costs_of(
    machine: Machine, model: ModelShape, profile: RuntimeProfile
) -> tuple[Vector, Certainty]:
    """Return the costs of a runtime's terms on a machine, and how certain they are."""
    for found in machine.runtimes:
        if found.runtime == profile.name:
            for own in found.models:
                if own.model == model.name and abs(own.bits / model.bits - 1.0) < 0.02:
                    return as_vector(own.costs), "calibrated on this model"
            return as_vector(found.costs), "calibrated on another model"
    return as_vector(profile.costs), "not calibrated"


def what_to_expect(within: Within) -> str:
    """Return an interval in words, for pages."""
    low, high = 100 * (1 / within.factor - 1), 100 * (within.factor - 1)
    return f"{within.certainty}: expect {low:+.0f} to {high:+.0f} % (80 % of held-out points)"
