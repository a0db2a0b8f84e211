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

from moeopt.core.errors import InputError
from moeopt.core.json_files import read_object
from moeopt.exporters.exported import NOTES_SUFFIX, Exported, Job
from moeopt.exporters.slots import (
    EP_SIZE,
    ONTO,
    REDUNDANT,
    Row,
    all_on_gpus,
    as_json,
    read_gpu,
    read_rows,
    slot_map,
)
from moeopt.exporters.target import Option, Target

KEY = "physical_to_logical_map"

READ_IN = "0.5.23"
"""The version of SGLang whose model classes are listed."""

HONOURING = frozenset({
    "BailingMoEForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM",
    "BailingMoeV2_5ForCausalLM", "BailingMoeV3ForCausalLM",
    "BailingMoeV3VLForConditionalGeneration",
    "DeepseekV2ForCausalLM", "DeepseekV32ForCausalLM", "DeepseekV3ForCausalLM",
    "DeepseekV4ForCausalLM", "Dots3NoteForCausalLM", "DotsVLMForCausalLM", "ExaoneMoEForCausalLM",
    "ExaoneMoeForCausalLM", "Glm4MoeForCausalLM", "Glm4MoeLiteForCausalLM",
    "Glm5NextForConditionalGeneration", "GlmMoeDsaForCausalLM", "GptOssForCausalLM",
    "InternS1ProForConditionalGeneration", "InternS2PreviewForConditionalGeneration",
    "K2HorizonForCausalLM", "KimiK25ForConditionalGeneration", "LLaDA2MoeModelLM",
    "LongcatFlashForCausalLM", "MellumForCausalLM", "MiMoV2FlashForCausalLM", "MiMoV2ForCausalLM",
    "MiniMaxM2ForCausalLM", "MiniMaxM3SparseForCausalLM",
    "MiniMaxM3SparseForConditionalGeneration", "MistralLarge3ForCausalLM", "NemotronHForCausalLM",
    "NemotronHPuzzleForCausalLM", "NemotronH_Nano_Omni_Reasoning_V3", "NemotronH_Nano_VL_V2",
    "NemotronH_Omni_Reasoning_V3", "Qwen2MoeForCausalLM", "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM", "Qwen3VLMoeForConditionalGeneration", "Qwen3_5ForCausalLM",
    "Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration",
    "Qwen4ExpForConditionalGeneration", "SDARMoeForCausalLM", "SarvamMLAForCausalLM",
    "SarvamMoEForCausalLM", "Step3VLForConditionalGeneration", "Step3p5ForCausalLM",
    "Step3p7ForConditionalGeneration", "TransformersMoEForCausalLM",
    "TransformersMultiModalMoEForCausalLM", "XllmForCausalLM",
})  # fmt: skip
"""Classes of models, without draft and embedding models, that take a map."""


def export(job: Job) -> Exported:
    """Return the map of a plan."""
    found = slot_map(job, rows_by_layer)

    def flags(path: Path) -> str:
        line = f"--init-expert-location {shlex.quote(str(path))}"
        line += f" --ep-size {found.devices}" if found.devices > 1 else ""
        return line + (f" --ep-num-redundant-experts {found.copies}" if found.copies else "")

    warnings = all_on_gpus("SGLang", found)
    return Exported(as_json({KEY: found.by_layer}), flags, found.notes, warnings=warnings)


def ignored(job: Job) -> tuple[str, ...]:
    """Return why SGLang would drop the map, by the model's class."""
    if job.model_class in HONOURING:
        return ()
    if job.model_class is None:
        some = "SGLang takes a map for some classes of models only, and drops it without a word"
        return (f"{some} for the others; the model's class is not known: give --model-class",)
    lacks = f"{job.model_class} has no get_model_config_for_expert_location"
    return (f"SGLang {READ_IN} drops the map without a word: {lacks}",)


def rows_by_layer(path: Path) -> dict[int, Row]:
    """Return the slots of all layers of a map."""
    return dict(enumerate(read_rows(read_object(path).get(KEY), f"{path}: {KEY}")))


def read_sglang_map(path: Path) -> list[tuple[int, ...]]:
    """Return the GPU experts of each layer with experts, from an exported map and its side file."""
    rows = rows_by_layer(path)
    notes = path.with_name(path.name + NOTES_SUFFIX)
    layers = read_object(notes).get("moe_layers")
    if not isinstance(layers, list) or any(type(la) is not int or la not in rows for la in layers):
        raise InputError(f"{notes}: moe_layers: must be a list of layers")
    return read_gpu(notes, [rows[layer] for layer in layers], layers)


TARGETS = (
    Target(
        "sglang",
        "SGLang: --init-expert-location",
        ("placement", "replication"),
        ".json",
        export,
        holds="which experts, and which copies, each device has in each layer",
        loses="which experts are off the GPU: it keeps all of them on GPUs",
        strict_suffix=True,
        options=(
            EP_SIZE,
            REDUNDANT,
            ONTO,
            Option("model_class", str, "The model's class, where its config.json is not known."),
        ),
        honoured_by=HONOURING,
        warn=ignored,
        start="${PYTHON:-python3} -m sglang.launch_server --model-path",
    ),
)
