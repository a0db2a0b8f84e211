"""The list of targets: who reads the file, for which problem, and which module writes it."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from moeopt.errors import InputError
from moeopt.exporters.exported import Exported, Job, destination


@dataclass(frozen=True)
class Target:
    """One format.

    Attributes
    ----------
    problem
        The problem whose plans it takes; None: any.
    suffix
        Of the file in a folder; with `strict_suffix` the runtime insists on it.
    plan
        Whether it holds a plan, so that a solution is needed; otherwise an instance is enough.
    """

    name: str
    problem: str | None
    module: str
    summary: str
    suffix: str
    strict_suffix: bool = False
    plan: bool = True
    function: str = "export"

    def fits(self, problem: str) -> bool:
        """Tell whether it takes this problem."""
        return self.problem in (None, problem)

    def destination(self, out: Path, name: str) -> Path:
        """Return where the file of an instance of this name goes; errors as `destination`."""
        return destination(out, name, self.suffix, self.strict_suffix)

    def run(self, job: Job) -> Exported:
        """Bring a plan or an instance into the format."""
        module = import_module(f"moeopt.exporters.{self.module}")
        function: Callable[[Job], Exported] = getattr(module, self.function)
        return function(job)


_ALL = (
    Target(
        "sglang", "placement", "sglang_map", "SGLang: --init-expert-location", ".json", True
    ),
    Target(
        "ktransformers", "placement", "ktransformers_counts",
        "KTransformers: expert counts that force the placement", ".pt", True,
    ),
    Target(
        "ktransformers-yaml", "placement", "ktransformers_yaml",
        "KTransformers, archived generation: injection rules, whole layers", ".yaml",
    ),
    Target("llama.cpp", "placement", "llama_cpp", "llama.cpp: flags, whole layers", ".txt"),
    Target(
        "vllm-eplb", "placement", "vllm_eplb", "vLLM: offline EPLB map of its plug-in", ".json"
    ),
    Target("elsa", "cache", "elsa", "CPU-GPU collaborative inference: cache flags", ".txt"),
    Target(
        "libcachesim", "cache", "cache_trace",
        "libCacheSim: the trace as csv", ".csv", plan=False, function="export_csv",
    ),
    Target(
        "libcachesim-oracle", "cache", "cache_trace",
        "libCacheSim: the trace as oracleGeneral, binary", ".oracleGeneral",
        plan=False, function="export_oracle_general",
    ),
    Target(
        "webcachesim", "cache", "cache_trace",
        "webcachesim: the trace as lines of time, id and size", ".tr",
        plan=False, function="export_webcachesim",
    ),
    Target(
        "mixture-compressor", "bitwidth", "mixture_compressor",
        "Mixture-Compressor: bits of each expert as JSON", ".json",
    ),
    Target(
        "ktransformers-flags", "deferral", "ktransformers_deferral",
        "KTransformers: the flag for deferred experts", ".txt",
    ),
    Target(
        "lp", None, "exact_model", "the exact MILP model, CPLEX LP format", ".lp",
        plan=False, function="export_lp",
    ),
    Target(
        "mps", None, "exact_model", "the exact MILP model, free MPS format", ".mps",
        plan=False, function="export_mps",
    ),
)  # fmt: skip

TARGETS = {target.name: target for target in _ALL}
"""Name -> target."""


def get_target(name: str, problem: str) -> Target:
    """Return a target for a problem.

    Raises
    ------
    InputError
        If there is none of that name, or it is for another problem; it lists those that fit.
    """
    fitting = ", ".join(target.name for target in TARGETS.values() if target.fits(problem))
    if name not in TARGETS:
        raise InputError(f"--to: {name!r} is unknown; for {problem} there are: {fitting}")
    if not TARGETS[name].fits(problem):
        raise InputError(
            f"--to: {name} does not take {problem}; for {problem} there are: {fitting}"
        )
    return TARGETS[name]
