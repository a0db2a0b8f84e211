"""Injection rules of KTransformers' archived generation: each layer's experts as a whole.

A rule matches modules by name and replaces them; the first rule that matches a module holds. These
two rules for the routed experts go before the general one of the model's own rule file, which also
has the rules for everything else. Modules of experts are called ``model.layers.N.mlp.experts``, in
Mixtral ``model.layers.N.block_sparse_moe.experts``; the rules match both. They name the class of
experts that the model's own rule file names: others are called with other arguments.

**Several GPUs**: a whole rule file in place of the model's own, for the classes whose file for
several GPUs was read (`SEVERAL`): each layer's modules on the device of its attention, its experts
there or on the CPU, and where activations go from one GPU to the next (``transfer_map``).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from moeopt.core.errors import InputError
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.plans import placed_whole
from moeopt.exporters.target import MODEL_CLASS, Option, Target, by_class, classes_of
from moeopt.problems.split.instance import Instance as Split
from moeopt.problems.split.instance import Solution as SplitSolution

TARGET = "ktransformers-yaml"

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


def export(job: Job) -> Exported:
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
    honoured = by_class(TARGET)(job)
    if honoured != "yes":
        name = job.model_class or "a model of unknown class: give --model-class"
        return (f"no rule file was read for {name}: its class of experts may be another",)
    serving = classes_of(TARGET).get("serving", {}).get(job.model_class or "")
    if serving and job.instance.problem == "placement" and not job.text(RULE_FILE.name):
        return (f"rule files that end in -serve.yaml have {serving}: name yours with --rule-file",)
    return ()


def _experts(job: Job) -> str:
    """Return the class of experts in the model's rule file; a server's may have another."""
    known, of = classes_of(TARGET), job.model_class or ""
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
    experts = classes_of(TARGET).get("experts", {}).get(job.model_class or "", PLAIN)
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
        TARGET,
        "KTransformers, archived generation: injection rules, whole layers",
        ("placement", "split"),
        ".yaml",
        export,
        holds="whole layers on the GPU or off it",
        loses="everything finer than a layer",
        names_experts=False,
        options=(MODEL_CLASS, RULE_FILE),
        honoured=by_class(TARGET),
        warn=other_classes,
    ),
)
