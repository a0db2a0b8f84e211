"""Plans for KTransformers, of both generations.

sglang-kt's placement by frequency is made to choose exactly the experts of a plan. It loads
``logical_count`` [buffer, layer, expert] from a file of torch, layers without experts included,
sums it over the first axis and puts the int(ratio x all experts) experts of the largest counts on
the GPU, over all layers together. Counts of 1 for the plan's experts and 0 for all others, with the
ratio that gives their number, leave it no choice. The flags exist in KTransformers' fork of SGLang,
the package ``sglang-kt``, only.

Its flag for deferred experts is one count for every token and layer. A plan in which all layers but
the last defer the same number has that form; the last layer has nothing to defer into. For any
other plan the best uniform count is found, which trying them all proves.

Files that ``torch.load(weights_only=True)`` reads are written without torch: a zip archive without
compression, in it the pickle ``data.pkl`` and the bytes of each tensor. The pickle is put together
from a handful of instructions, which build a dict of tensors and nothing else
(`moeopt.sim.traces.readers.torch_zip` reads it).

The archived generation has injection rules instead, each layer's experts as a whole. A rule matches
modules by name and replaces them; the first rule that matches a module holds. These two rules for
the routed experts go before the general one of the model's own rule file, which also has the rules
for everything else. Modules of experts are called ``model.layers.N.mlp.experts``, in Mixtral
``model.layers.N.block_sparse_moe.experts``; the rules match both. They name the class of experts
that the model's own rule file names: others are called with other arguments.

**Several GPUs**: a whole rule file in place of the model's own, for the classes whose file for
several GPUs was read (`SEVERAL`): each layer's modules on the device of its attention, its experts
there or on the CPU, and where activations go from one GPU to the next (``transfer_map``).
"""

import io
import math
import struct
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job, Loss, NoPlanError
from moeopt.exporters.plans import checked_objective, compared, known_shape, placed, placed_whole
from moeopt.exporters.target import MODEL_CLASS, Option, Target, by_class, classes_of
from moeopt.problems.deferral.instance import Solution as Deferred
from moeopt.problems.split.instance import Instance as Split
from moeopt.problems.split.instance import Solution as SplitSolution
from moeopt.sim.machines.runtimes.command import SGLANG, ratio_of, strategy
from moeopt.solvers.run import solve

from .llama_cpp import RUNNING, complete

_START, _STOP = b"\x80\x02", b"."
_DICT, _MARK, _SET_ITEMS = b"}", b"(", b"u"
_TUPLE, _EMPTY_TUPLE, _FALSE, _CALL, _OUTSIDE = b"t", b")", b"\x89", b"R", b"Q"
_REBUILD = b"ctorch._utils\n_rebuild_tensor_v2\n"
_STORAGE = b"ctorch\nIntStorage\n"
_ORDERED_DICT = b"ccollections\nOrderedDict\n" + _EMPTY_TUPLE + _CALL
_FIRST_DAY = (1980, 1, 1, 0, 0, 0)
"""The earliest date of a zip file: the same content gives the same bytes."""


def torch_file(tensors: Mapping[str, NDArray[np.int32]]) -> bytes:
    """Return the content of a file that holds a dict of tensors: integers of 32 bits, any shape."""
    items = [
        _text(name) + _tensor(str(key), array) for key, (name, array) in enumerate(tensors.items())
    ]
    program = _START + _DICT + _MARK + b"".join(items) + _SET_ITEMS + _STOP
    members = {"data.pkl": program, "byteorder": b"little"}
    for key, array in enumerate(tensors.values()):
        members[f"data/{key}"] = np.ascontiguousarray(array).astype("<i4").tobytes()
    members["version"] = b"3\n"
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_STORED) as archive:
        for name, content in members.items():
            archive.writestr(zipfile.ZipInfo(f"archive/{name}", _FIRST_DAY), content)
    return stream.getvalue()


def _tensor(key: str, array: NDArray[np.int32]) -> bytes:
    """Return the instructions that rebuild a tensor of contiguous numbers from a storage."""
    strides = [math.prod(array.shape[axis + 1 :]) for axis in range(array.ndim)]
    place = (
        _MARK + _text("storage") + _STORAGE + _text(key) + _text("cpu") + pickled_int(array.size)
    )
    arguments = pickled_int(0) + _numbers(array.shape) + _numbers(strides) + _FALSE + _ORDERED_DICT
    return _REBUILD + _MARK + place + _TUPLE + _OUTSIDE + arguments + _TUPLE + _CALL


def _text(value: str) -> bytes:
    content = value.encode()
    return b"X" + struct.pack("<I", len(content)) + content


def pickled_int(value: int) -> bytes:
    """Return the instruction that puts an integer."""
    return b"J" + struct.pack("<i", value)


def _numbers(values: tuple[int, ...] | list[int]) -> bytes:
    return _MARK + b"".join(map(pickled_int, values)) + _TUPLE


KEY = "logical_count"

FLAG = "--kt-max-deferred-experts-per-token"
UNIFORM = "the same number of deferred experts in every layer"


def export(job: Job) -> Exported:
    """Return the counts of a placement."""
    plan = placed(job)
    counts = np.zeros((1, plan.all_layers, plan.experts), dtype=np.int32)
    for layer, own in zip(plan.hidden, plan.gpu, strict=True):
        counts[0, layer, list(own)] = 1
    chosen = plan.count, len(plan.hidden) * plan.experts
    deferred, loss = _deferred(job)

    def flags(path: Path) -> str:
        line = complete(job, strategy("frequency", str(path), chosen), "ktransformers")
        return line if deferred is None else f"{line} {deferral_flag(deferred)}"

    notes = plan.notes() | {"kt_gpu_experts_ratio": ratio_of(*chosen), "deferred": deferred}
    return Exported(torch_file({KEY: counts}), flags, notes, loss)


def other_layers(job: Job) -> tuple[str, ...]:
    """Return why the runtime would choose another number of experts than the plan has.

    It takes the first ``first_k_dense_replace`` layers for those without experts, and of the others
    every ``moe_layer_freq``-th for one with.
    """
    shape = known_shape(job)
    moe = shape.moe_layers
    steps = {after - before for before, after in pairwise(moe)} or {1}
    regular = len(steps) == 1 and moe[-1] + max(steps) >= shape.layers
    if regular and (steps == {1} or moe[0] % max(steps) == 0):
        return ()
    how = "the runtime finds layers with experts by first_k_dense_replace and moe_layer_freq"
    return (f"{how}, which cannot say those of {shape.name}: it would choose other experts",)


def _deferred(job: Job) -> tuple[int | None, Loss | None]:
    """Return the count that a deferral plan gives each layer, and what uniformity costs."""
    pair = job.options["deferral"]
    if not isinstance(pair, tuple):
        return None, None
    solution, instance = pair
    if solution.problem != "deferral":
        raise InputError(f"--deferral: must be a solution of deferral, not of {solution.problem}")
    objective = checked_objective(instance, solution)
    return _uniform_count(Job(instance, solution, objective, limits=job.limits))


def _uniform_count(job: Job) -> tuple[int, Loss | None]:
    """Return the plan's count, or the best uniform one and what it costs."""
    counts = {count or 0 for count in job.plan(Deferred).deferred[:-1]} or {0}
    if len(counts) == 1:
        return counts.pop(), None
    result = solve(job.instance, "uniform-d", **job.limits.asked)
    found = result.solution
    if not isinstance(found, Deferred):
        raise NoPlanError(f"{job.instance.name}: {UNIFORM}: none found", infeasible=False)
    return found.deferred[0] or 0, compared(job, job.instance, found, UNIFORM, proven=True)


def deferral_flag(count: int) -> str:
    """Return the flag for a count."""
    return f"{FLAG} {count}"


YAML_TARGET = "ktransformers-yaml"

PLAIN = "KTransformersExperts"
"""The class of experts that rule files name where they name no other."""

RULE_FILE = Option("rule_file", str, "The model's rule file, as ...-serve.yaml may differ.")

GPU, CPU = "cuda:0", "cpu"
OPERATOR = {GPU: "KExpertsMarlin", CPU: "KExpertsCPU"}

_RULE = """\
- match:
    name: "^model\\\\.layers\\\\.({layers})\\\\.(mlp|block_sparse_moe)\\\\.experts$"
  replace:
    class: ktransformers.operators.experts.{experts}
    kwargs:
      prefill_device: "{gpu}"
      prefill_op: {prefill}
      generate_device: "{device}"
      generate_op: "{operator}"
      out_device: "{gpu}"
  recursive: False
"""


def export_yaml(job: Job) -> Exported:
    """Return the rules of a placement, brought to whole layers if it is not of that form."""
    if isinstance(job.instance, Split):
        return _of_split(job, job.instance)
    plan, loss = placed_whole(job)
    off = set(plan.off_gpu)
    on = [layer for layer in plan.hidden if layer not in off]
    experts = _experts(job)
    parts = ((on, GPU), (sorted(off), CPU))
    text = "".join(_rule(layers, device, experts) for layers, device in parts)
    return Exported(text.encode(), None, plan.notes(), loss)


def other_classes(job: Job) -> tuple[str, ...]:
    """Return which rule file of the model the rules are not for, and where none was read."""
    honoured = by_class(YAML_TARGET)(job)
    if honoured != "yes":
        name = job.model_class or "a model of unknown class: give --model-class"
        return (f"no rule file was read for {name}: its class of experts may be another",)
    serving = classes_of(YAML_TARGET).get("serving", {}).get(job.model_class or "")
    if serving and job.instance.problem == "placement" and not job.text(RULE_FILE.name):
        return (f"rule files that end in -serve.yaml have {serving}: name yours with --rule-file",)
    return ()


def _experts(job: Job) -> str:
    """Return the class of experts in the model's rule file; a server's may have another."""
    known, of = classes_of(YAML_TARGET), job.model_class or ""
    plain = known.get("experts", {}).get(of, PLAIN)
    file = job.text(RULE_FILE.name) or ""
    return known.get("serving", {}).get(of, plain) if "-serve" in file else plain


@dataclass(frozen=True)
class Modules:
    """What a model's own rule file replaces on several GPUs.

    Attributes
    ----------
    layer
        Of each layer: end of the name, the module's class (or none), and what replaces it.
    whole
        What replaces the model, which hands activations on.
    """

    layer: tuple[tuple[str, str, str], ...]
    whole: str


LINEAR = "linear.KTransformersLinear"

SEVERAL = {
    "DeepseekV3ForCausalLM": Modules(
        (
            ("", "modeling_deepseek.DeepseekV2YarnRotaryEmbedding", "RoPE.YarnRotaryEmbedding"),
            (r"(?!self_attn\\.kv_b_proj).*$", "", LINEAR),
            ("mlp$", "modeling_deepseekv3.DeepseekV3MoE", "experts.KDeepseekV3MoE"),
            (r"mlp\\.gate$", "modeling_deepseekv3.MoEGate", "gate.KMoEGate"),
            ("self_attn$", "", "attention.KDeepseekV3Attention"),
        ),
        "models.KDeepseekV2Model",
    ),
    "Qwen2MoeForCausalLM": Modules(
        (
            ("", "modeling_qwen2_moe.Qwen2MoeRotaryEmbedding", "RoPE.RotaryEmbedding"),
            (
                "mlp$",
                "modeling_qwen2_moe.Qwen2MoeSparseMoeBlock",
                "experts.KQwen2MoeSparseMoeBlock",
            ),
        ),
        "layer_wise_prefill.KQwen2MoeModel",
    ),
}
"""Class of a model -> what its ``...-multi-gpu.yaml`` of the archived generation replaces."""


def _of_split(job: Job, instance: Split) -> Exported:
    """Return the whole rule file of a split.

    Raises
    ------
    InputError
        If no file for several GPUs was read for the model's class, or it says what such a file
        cannot: attention on the host or in another order, experts on another GPU than it.
    """
    modules = SEVERAL.get(job.model_class or "")
    if modules is None:
        known = ", ".join(SEVERAL)
        reason = f"rule files for several GPUs are known of {known}, not of {job.model_class}"
        raise InputError(f"--model-class: {reason}")
    if instance.by_tensor:
        raise InputError("layers: experts are given by tensor; a rule file places whole ones")
    solution = job.plan(SplitSolution)
    gpus = [n for n, device in enumerate(instance.devices) if device.name.startswith("gpu")]
    at = [gpus.index(home) if home in gpus else -1 for home in solution.attention]
    if min(at) < 0 or at != sorted(at):
        raise InputError("attention: must lie on gpu0, gpu1, ... in that order")
    off, on = dict[int, list[int]](), dict[int, list[int]]()
    for layer, (home, gpu) in enumerate(zip(solution.experts, at, strict=True)):
        if home in gpus and home != gpus[gpu]:
            raise InputError(f"experts[{layer}]: must lie with their attention or on the host")
        if home >= 0:
            (on if home in gpus else off).setdefault(gpu, []).append(layer)
    experts = classes_of(YAML_TARGET).get("experts", {}).get(job.model_class or "", PLAIN)
    parts = [_placed_at("^model.embed_tokens", "default", CPU)]
    for gpu in sorted(set(at)):
        name, layers = f"cuda:{gpu}", [layer for layer, of in enumerate(at) if of == gpu]
        within = f"^model\\\\.layers\\\\.({'|'.join(map(str, layers))})\\\\."
        parts += [_rule(on.get(gpu, ()), name, experts, name)]
        parts += [_rule(off.get(gpu, ()), CPU, experts, name)]
        for end, kind, by in modules.layer:
            parts.append(_placed_at(f"{within}{end}", by, name, kind))
        parts.append(_placed_at(within, "default", name))
    parts.append(_placed_at("(^model.norm)|(^lm_head)", "default", f"cuda:{at[-1]}"))
    moves = [(n, gpu) for n, gpu in enumerate(at) if n and gpu != at[n - 1]]
    text = _MODEL.format(by=modules.whole) if moves else ""
    text += "".join(f'        {layer}: "cuda:{gpu}"\n' for layer, gpu in moves)
    return Exported("".join([*parts, text]).encode(), None)


def _placed_at(name: str, by: str, device: str, kind: str = "") -> str:
    """Return a rule that replaces modules of a name, and a class, on a device."""
    of = "torch.nn.Linear" if by == LINEAR else f"ktransformers.models.{kind}" if kind else ""
    lines = ["- match:", f'    name: "{name}"', *([f"    class: {of}"] if of else []), "  replace:"]
    lines.append(
        "    class: default" if by == "default" else f"    class: ktransformers.operators.{by}"
    )
    lines += [
        "    kwargs:",
        f'      generate_device: "{device}"',
        f'      prefill_device: "{device}"',
    ]
    if by == LINEAR:
        lines += ['      generate_op: "KLinearMarlin"', '      prefill_op: "KLinearTorch"']
    return "\n".join(lines) + "\n"


_MODEL = """\
- match:
    name: "^model$"
  replace:
    class: ktransformers.operators.{by}
    kwargs:
      per_layer_prefill_intput_threshold: 0
      transfer_map:
"""


def _rule(layers: Sequence[int], device: str, experts: str, gpu: str = GPU) -> str:
    """Return the rule for some layers' experts, none if there are none."""
    if not layers:
        return ""
    numbers = "|".join(map(str, layers))
    prefill = "None" if experts == "KGlm4Experts" else '"KExpertsTorch"'
    named = {
        "experts": experts,
        "prefill": prefill,
        "operator": OPERATOR.get(device, OPERATOR[GPU]),
    }
    return _RULE.format(layers=numbers, gpu=gpu, device=device, **named)


TARGETS = (
    Target(
        "ktransformers",
        "KTransformers (sglang-kt): expert counts that force the placement",
        ("placement",),
        ".pt",
        export,
        holds="every placement, and one count of deferred experts for all layers",
        loses="nothing of a placement; counts of deferred experts that differ between layers",
        strict_suffix=True,
        options=(
            *(option for option in RUNNING if option.name != "cache_type"),
            Option("sockets", int, "A pool of threads each; default: the runtime's.", None, 1, 64),
            Option("deferral", tuple, "Deferral solution whose flag goes along."),
        ),
        honoured=lambda job: "no" if other_layers(job) else "unknown",
        warn=other_layers,
        start=f'"${{PYTHON:-python3}}" {SGLANG}',
    ),
    Target(
        YAML_TARGET,
        "KTransformers, archived generation: injection rules, whole layers",
        ("placement", "split"),
        ".yaml",
        export_yaml,
        holds="whole layers on the GPU or off it",
        loses="everything finer than a layer",
        names_experts=False,
        options=(MODEL_CLASS, RULE_FILE),
        honoured=by_class(YAML_TARGET),
        warn=other_classes,
    ),
)
