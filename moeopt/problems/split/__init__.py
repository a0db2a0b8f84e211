"""Where each layer's attention and routed experts lie, on several GPUs and memory nodes."""

from typing import TYPE_CHECKING, ClassVar

from moeopt.core.lazy import lazy_names
from moeopt.core.problem import ExactMethod, Heuristic, Problem

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from .bounds import lower_bound as lower_bound
    from .check import CONSTRAINTS as CONSTRAINTS
    from .check import OBJECTIVE as OBJECTIVE
    from .check import objective as objective
    from .check import violations as violations
    from .instance import Device as Device
    from .instance import Instance as Instance
    from .instance import Layer as Layer
    from .instance import Solution as Solution

    HEURISTICS: Mapping[str, Callable[..., Solution | None]]


class SplitProblem(Problem["Instance", "Solution"]):
    """Problem `split`."""

    name = "split"
    title = "Layers over several GPUs and memory nodes"
    paper = "llama.cpp"
    published = "llama.cpp-fit"
    heuristics = (
        Heuristic("llama.cpp-fit", ".heuristics:llama_cpp_fit", "none"),
        Heuristic("tensor-split-then-n-cpu-moe", ".heuristics:tensor_split_then_n_cpu_moe", "none"),
        Heuristic("ik-auto-fit", ".heuristics:ik_auto_fit", "none"),
        Heuristic("first-fit", ".heuristics:first_fit", "none"),
        Heuristic("one-gpu-only", ".heuristics:one_gpu_only", "none"),
    )
    machine_parts = ("cpu",)
    exact = (ExactMethod("labels", ".labels", then="cp-sat"),)
    restrictions: ClassVar = {"order": None}
    from_routing = False
    from_counts = True
    absent: ClassVar = {
        "holdout": "times and sizes do not depend on which experts a token chooses",
        "lanes": "nothing overlaps: the sums that `facts` states say all",
    }
    unpriced: ClassVar = {
        "SP-C1": "it says what is decided",
        "SP-C5": "it says what the objective is",
        "SP-C6": "it says what the objective is",
    }


PROBLEM = SplitProblem()

__getattr__, __dir__ = lazy_names(__name__, {"Device": "instance", "Layer": "instance"})
