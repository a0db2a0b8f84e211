"""The MILP model in PuLP: the rows of the CP-SAT model, scaled for solvers in floats."""

from moeopt.core.linear import InFloats

from . import cpsat


class Model(InFloats, cpsat.Model):
    """One method per constraint ID, as in `cpsat.Model`."""
