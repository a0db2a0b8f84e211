"""T1, T2 and T23: the load predictor."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.papers import data
from benchmarks.papers.figure import Ours
from benchmarks.papers.trimoe.setting import MODELS
from benchmarks.rooms.sim import ALPHA, HOT, WARM, get_model, load_classes, predict_run, read_trace
from benchmarks.rooms.systems import loads_of_trace

STORED = Path(__file__).with_name("predictor_accuracy.json")

WARM_UP = 20
"""First steps that are not counted: the template at the head of all prompts is unlike the rest."""

FROM_THE_START = "from the first step"
"""Key of the same with all steps, in the statistic."""

AVERAGE_BYTES = 4
"""Of a moving average."""

CLASSES = (
    f'"decision accuracy" is read as agreement of the classes hot ({HOT:.0%} of the experts), warm'
    f" ({WARM:.0%}) and cold"
)
TRACE = (
    "real routing of DeepSeek-V2-Lite (ESFT, three tasks); step t is the t-th token of its"
    " sequences, after 20 steps of prompt template"
)


def decision_accuracy(
    counts: NDArray[np.int64], alpha: float = ALPHA, warm_up: int = 0, **shares: float
) -> float:
    """Return how often a predicted class is the real one, over steps, layers and experts.

    TriMoE reports "migration decision accuracy" of 78 % without a definition (4.3); this is the
    class agreement that decides what is prefetched, striped or localized. The first `warm_up` steps
    are not judged, beyond the very first, which nothing precedes.
    """
    predicted = load_classes(predict_run(counts, alpha)[warm_up:], **shares)
    return float((predicted == load_classes(counts[warm_up + 1 :], **shares)).mean())


def t1() -> Ours:
    """Return the predictor's weight of the newest step, which is the paper's."""
    return Ours((ALPHA,), "input", ())


def t2() -> Ours:
    """Return how often the predictor is right."""
    found = data.statistic(STORED, data.V2_LITE, measure)
    each = ", ".join(f"{task} {found[task]:.2f}" for task in data.TASKS)
    note = (
        f"the worst of three tasks; {each}, of 127, 33 and 13 sequences, far from the paper's"
        " batches of 256 and more; with the steps of the template"
        f" {', '.join(f'{task} {found[FROM_THE_START][task]:.2f}' for task in data.TASKS)}"
    )
    return Ours((min(found[task] for task in data.TASKS),), "assumed", (CLASSES, TRACE), note)


def t23() -> Ours:
    """Return the metadata that the predictor keeps, in KB."""
    sizes = {name: _metadata_kb(name) for name in MODELS}
    each = ", ".join(f"{name} {size:.1f}" for name, size in sizes.items())
    return Ours(
        (sizes[MODELS[0]],),
        "selected",
        (
            f"one moving average of 4 bytes for each routed expert of {MODELS[0]}, the model and"
            " the width that fit",
        ),
        f"{each} KB; the paper names neither model nor width",
    )


def _metadata_kb(name: str) -> float:
    model = get_model(name)
    return (model.layers - model.dense_layers) * model.routed_experts * AVERAGE_BYTES / 1e3


def measure(paths: Sequence[Path]) -> data.Statistic:
    """Return the accuracy on each task's trace, after the template and from the first step."""
    model = get_model("deepseek-v2-lite")
    found: data.Statistic = {FROM_THE_START: {}}
    for task, path in zip(data.TASKS, paths, strict=True):
        trace = read_trace(path)
        live = 1 if trace.seq_len is None else len(trace.seq_len)
        counts = loads_of_trace(trace, model, live, None, None, "sequences").counts
        found[task] = round(decision_accuracy(counts, warm_up=WARM_UP), 6)
        found[FROM_THE_START][task] = round(decision_accuracy(counts, warm_up=0), 6)
    return found
