"""SGLang's ``--init-expert-location``: which expert each physical slot of each layer holds.

The file is one object with the one key ``physical_to_logical_map`` [layer, slot]: its loader hands
every key on as an argument, so that any other one is an error. Layers without experts have rows,
too. Slots are numbered over the devices, each of which has equally many; every expert has a slot.

SGLang keeps all of them on GPUs. What of a placement it can hold on one device is the order: the
experts chosen for the GPU have the first slots, ``per_layer`` of the side file says how many. On
several devices the placement's tokens decide which experts share one, and which have copies. Models
whose class lacks ``get_model_config_for_expert_location`` get no map: the file is read and dropped
without a word.
"""

import shlex
from pathlib import Path

from moeopt.core.json_files import read_object
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.slots import (
    EP_SIZE,
    ONTO,
    REDUNDANT,
    Row,
    SlotMap,
    as_json,
    not_followed,
    read_rows,
    slot_map,
)
from moeopt.exporters.target import MODEL_CLASS, Target, by_class, classes_of
from moeopt.sim.machines.runtimes.command import SGLANG

KEY = "physical_to_logical_map"

TARGET = "sglang"


def export(job: Job) -> Exported:
    """Return the map of a plan."""
    return written(slot_map(job, rows_by_layer))


def written(found: SlotMap) -> Exported:
    """Return the file of a map, with its flags."""

    def flags(path: Path) -> str:
        line = f"--init-expert-location {shlex.quote(str(path))}"
        line += f" --ep-size {found.devices}" if found.devices > 1 else ""
        return line + (f" --ep-num-redundant-experts {found.copies}" if found.copies else "")

    warnings = not_followed("SGLang", found)
    return Exported(as_json({KEY: found.by_layer}), flags, found.notes, warnings=warnings)


def ignored(job: Job) -> tuple[str, ...]:
    """Return why SGLang would drop the map of a job, by the model's class."""
    return dropped(job.model_class)


def dropped(model_class: str | None) -> tuple[str, ...]:
    """Return why SGLang would drop a map, by the model's class; nothing if it takes it."""
    if model_class is None:
        some = "SGLang takes a map for some classes of models only, and drops it without a word"
        return (f"{some} for the others; the model's class is not known: give --model-class",)
    known = classes_of(TARGET)
    if model_class in known["yes"]:
        return ()
    lacks = f"{model_class} has no get_model_config_for_expert_location"
    version = known["consumer"].partition(":")[0]
    return (f"{version} drops the map without a word: {lacks}",)


def rows_by_layer(path: Path) -> dict[int, Row]:
    """Return the slots of all layers of a map."""
    return dict(enumerate(read_rows(read_object(path).get(KEY), f"{path}: {KEY}")))


TARGETS = (
    Target(
        TARGET,
        "SGLang: --init-expert-location",
        ("placement", "replication"),
        ".json",
        export,
        holds="which experts, and which copies, each device has in each layer",
        loses="which experts are off the GPU: it keeps all of them on GPUs",
        strict_suffix=True,
        options=(EP_SIZE, REDUNDANT, ONTO, MODEL_CLASS),
        honoured=by_class(TARGET),
        warn=ignored,
        start=f'"${{PYTHON:-python3}}" {SGLANG}',
    ),
)
