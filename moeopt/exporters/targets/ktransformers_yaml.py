"""Injection rules of KTransformers' archived generation: each layer's experts as a whole.

A rule matches modules by name and replaces them; the first rule that matches a module holds. These
two rules for the routed experts go before the general one of the model's own rule file, which also
has the rules for everything else. Modules of experts are called ``model.layers.N.mlp.experts``, in
Mixtral ``model.layers.N.block_sparse_moe.experts``; the rules match both. They name the class of
experts that the model's own rule file names: others are called with other arguments.
"""

from collections.abc import Sequence

from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.plans import placed_whole
from moeopt.exporters.target import MODEL_CLASS, Option, Target, by_class, classes_of

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
    if serving and not job.text(RULE_FILE.name):
        return (f"rule files that end in -serve.yaml have {serving}: name yours with --rule-file",)
    return ()


def _experts(job: Job) -> str:
    """Return the class of experts in the model's rule file; a server's may have another."""
    known, of = classes_of(TARGET), job.model_class or ""
    plain = known.get("experts", {}).get(of, PLAIN)
    file = job.text(RULE_FILE.name) or ""
    return known.get("serving", {}).get(of, plain) if "-serve" in file else plain


def _rule(layers: Sequence[int], device: str, experts: str) -> str:
    """Return the rule for some layers, none if there are none."""
    if not layers:
        return ""
    numbers = "|".join(map(str, layers))
    prefill = "None" if experts == "KGlm4Experts" else '"KExpertsTorch"'
    named = {"experts": experts, "prefill": prefill, "operator": OPERATOR[device]}
    return _RULE.format(layers=numbers, gpu=GPU, device=device, **named)


TARGETS = (
    Target(
        TARGET,
        "KTransformers, archived generation: injection rules, whole layers",
        ("placement",),
        ".yaml",
        export,
        holds="whole layers on the GPU or off it",
        loses="everything finer than a layer",
        names_experts=False,
        options=(Option("model_class", str, MODEL_CLASS), RULE_FILE),
        honoured=by_class(TARGET),
        warn=other_classes,
    ),
)
