"""layout, one scenario, exact roofline costs: bound-and-pack against the textbook models.

As `layout_exact`, but times are whole nanoseconds, whose common divisor of some 50 us is left as it
is: rounding up to 5 us destroys it and makes the packing harder.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import moeopt
from benchmarks.cases import layout_exact
from benchmarks.harness.measurement import Contender
from benchmarks.rooms.core import InstanceEnvelope

DESCRIPTION = "layout, one scenario, exact roofline costs: paper scale, 8 to 32 DIMMs"
BASELINE = "bound-and-pack"


def contenders() -> Mapping[str, Contender]:
    """Return the same as `layout_exact`."""
    return layout_exact.contenders()


def instances() -> Sequence[InstanceEnvelope]:
    """Return one instance for each model and number of DIMMs."""
    return [
        moeopt.generate(
            "layout",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=256,
            seed=0,
            dimms=dimms,
            hbm_slots=6,
            quantum_ns=1,
            name=f"{model}-dimms{dimms}",
        )
        for model, dimms in product(layout_exact.MODELS, layout_exact.DIMMS)
    ]
