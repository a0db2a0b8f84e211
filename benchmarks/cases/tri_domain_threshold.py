"""tri_domain to proven optimality: the threshold search against CP-SAT, as called and as such."""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from time import perf_counter

import moeopt
from benchmarks.harness.contenders import moeopt_solve
from benchmarks.harness.measurement import Contender, Measurement
from benchmarks.rooms.core import InstanceEnvelope
from benchmarks.rooms.tri_domain import (
    DOMAINS,
    FIRST_WORK,
    NO_CUTOFF,
    Bracket,
    Instance,
    Solution,
    objective,
)

DESCRIPTION = (
    "tri_domain: threshold search against CP-SAT, library and 8 to 32 DIMMs at paper scale"
)
BASELINE = "cp-sat"

MODELS = ("deepseek-v2", "qwen3-235b-a22b", "glm-4.5-air")
BATCHES = (32, 256, 768)
DIMMS = (8, 16, 32)
RESIDENTS = (0, 6)
QUANTA_NS = (1, 5000)
LIBRARY = Path(__file__).parents[2] / "instances" / "tri_domain"


def contenders() -> Mapping[str, Contender]:
    return {
        "cp-sat": moeopt_solve(method="cp-sat"),
        "threshold": moeopt_solve(method="threshold"),
        "threshold, the algorithm alone": _certify,
    }


def instances() -> Sequence[InstanceEnvelope]:
    library = [moeopt.load(file) for file in sorted(LIBRARY.glob("*/*.json"))]
    return [*(i for i in library if isinstance(i, Instance)), *_synthetic()]


def _certify(instance: InstanceEnvelope, time_limit_s: float) -> Measurement:
    """Take the time of the compiled search on the instance's arrays; the checker stays outside."""
    assert isinstance(instance, Instance)
    table = instance.device_table
    begin = perf_counter()
    bracket = Bracket(table, len(instance.experts), instance.dimms)
    bracket.narrow(NO_CUTOFF, FIRST_WORK)
    seconds = perf_counter() - begin
    lower, upper, domain = bracket.lower, bracket.upper, bracket.domain
    assignment = tuple(DOMAINS[d] for d in domain.tolist())
    actual = objective(instance, Solution(instance=instance.name, assignment=assignment))
    assert actual == upper, f"claims {upper}, the checker says {actual}"
    return Measurement(seconds, actual, float(lower), proven=lower == upper)


def _synthetic() -> list[InstanceEnvelope]:
    return [
        moeopt.generate(
            "tri_domain",
            machine="trimoe",
            model=model,
            workload="trimoe-skew",
            batch=batch,
            dimms=dimms,
            residents=residents,
            quantum_ns=quantum_ns,
            seed=7,
            name=f"{model}-batch{batch}-dimms{dimms}-residents{residents}-quantum{quantum_ns}",
        )
        for model, batch, dimms, residents, quantum_ns in product(
            MODELS, BATCHES, DIMMS, RESIDENTS, QUANTA_NS
        )
    ]
