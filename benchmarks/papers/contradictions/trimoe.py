"""TriMoE: what the paper leaves open, and where it contradicts itself."""

from benchmarks.papers.contradictions import Contradiction
from benchmarks.rooms.sim import get_model
from moeopt import get_machine

GIB = 2**30


def contradictions() -> tuple[Contradiction, ...]:
    """Return them with their arithmetic."""
    machine, model = get_machine("trimoe"), get_model("deepseek-v2")
    size = model.expert_bytes
    link, memory = machine.dimm_link, machine.require("ndp").memory
    single = (memory.dimms.one_gb_s if memory.dimms else None) or 0.0
    experts = (model.layers - model.dense_layers) * (model.routed_experts + model.shared_experts)
    striped = size / memory.gb_s / 1e6
    need = 4 * size / 0.63e-3 / 1e9
    return (
        Contradiction(
            "4.2, greedy assignment",
            "Each expert takes its cheapest path, but no tie rule is given, and a localized expert"
            " that is not resident costs GPU and CPU the same read.",
            f"Both read {size / 1e6:.1f} MB at {single:g} GB/s = {size / single / 1e6:.2f} ms, more"
            " than PCIe and either computation need, so that the whole mid-load class ties.",
            "the first of CPU, GPU, NDP, the default of the assumption tie_order; the other orders"
            " are swept; the product T5 x T6 x T7 is stated beside the split",
        ),
        Contradiction(
            "Eq. 2 and 5",
            "Costs are a maximum per expert and then a plain sum: one expert's transfer never"
            " overlaps another's computation, which is what Klotski is for.",
            "",
            "Eq. 5 literally; Klotski is modelled as all GPU",
        ),
        Contradiction(
            "4.1 and Eq. 6",
            'NDP works "without interfering with normal CPU or GPU access", while Eq. 6 adds their'
            " reads to a DIMM's time.",
            f"With a factor below 1 on striped reads GPU and CPU could together read more than the"
            f" {memory.gb_s:g} GB/s of Table 1; with 1/2 it would be"
            f" {2 * memory.gb_s:g}.",
            "Eq. 6 in full",
        ),
        Contradiction(
            "4.2, refinement",
            "What the bottleneck device is among 16 DIMMs, ties between devices and experts, and"
            " the iteration limit are not stated; only the costliest expert is tried. A striped"
            ' expert has one other device, not "two".',
            "",
            "the DIMM of most load; ties GPU, CPU, lowest DIMM, lowest expert; a bottleneck DIMM"
            " without NDP work ends it; strict decrease, no limit",
        ),
        Contradiction(
            "Table 3",
            "Utilization is not defined.",
            "Klotski's GPU has 28.6 % there, and 3.1 says below 8.6 % for a GPU that loads its"
            " experts over PCIe.",
            "time spent computing over the makespan",
        ),
        Contradiction(
            "5.5",
            "Four experts migrate in 0.63 ms.",
            f"4 x {size / 1e6:.1f} MB in 0.63 ms are {need:.0f} GB/s; a DIMM-Link has {link.gb_s:g}"
            f" (one expert: {link.transfer_s(size) * 1e3:.2f} ms), all 16 together"
            f" {16 * link.gb_s:g}.",
            "a matrix of an expert on each of twelve links,"
            f" {link.transfer_s(size / 3) * 1e3:.2f} ms, labelled selected",
        ),
        Contradiction(
            "3.1, 5.2.1 and Table 3",
            "The ablation starts from GPU-NDP and gains 1.75 x 1.28 x 1.16 = "
            f"{1.75 * 1.28 * 1.16:.2f}, as much as the speedup over the best baseline, so MoNDE"
            " would be near the best.",
            "In this model Enhanced KTransformers is faster than MoNDE from batch 256 on, if it"
            f" reads at the same bandwidth: it needs some 110 active experts x {striped:.3f} ms ="
            f" {110 * striped:.0f} ms of host reads at batch 512, MoNDE 22 ms.",
            "the best baseline is the fastest at each batch",
        ),
        Contradiction(
            "Table 2",
            "DeepSeek-V2 has 422 GB of experts.",
            f"{experts} experts x {size / 1e6:.1f} MB = {experts * size / 1e9:.0f} GB ="
            f" {experts * size / GIB:.0f} GiB.",
            "GiB are meant",
        ),
    )
