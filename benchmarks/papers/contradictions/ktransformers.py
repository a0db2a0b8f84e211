"""KTransformers: what the paper leaves open, and where it contradicts itself."""

from benchmarks.papers.contradictions import Contradiction


def contradictions() -> tuple[Contradiction, ...]:
    """Return them with their arithmetic."""
    cpu, gpu, both, sync = 740, 280, 50, 30
    return (
        Contradiction(
            "4.2 and 1",
            'CPU utilization before deferral is "below 75 %" in the text and 74 % in the profile.',
            f"{cpu} + {gpu} - {both} + {sync} = {cpu + gpu - both + sync} thousandths of a layer:"
            f" the profile adds up, and 18 % of the GPU's {gpu} are {0.18 * gpu:.0f}, the overlap.",
            "74 %",
        ),
        Contradiction(
            "4.2 and 6.3",
            "Experts are deferred until the CPU is saturated; on some machines it never is.",
            "",
            "the least count that reaches the shortest period, at most top_k - 2",
        ),
        Contradiction(
            "6.3",
            "Of the six counts three are the cap top_k - 2 and no evidence for the rule.",
            f"DeepSeek-V3 int4: top-8 gives {8 - 2}; DeepSeek-V2.5 both: top-6 gives {6 - 2}.",
            "only 3 (DeepSeek-V3) and 2 and 4 (Qwen2) test the rule",
        ),
        Contradiction(
            "6.3 and 6.2",
            "Six deferred experts for DeepSeek-V3 int4, and gains of at most 1.45.",
            "That count needs (attention + 2 hand-overs) / expert in (5, 6], hence a layer of"
            f" at least 8 + 5 = 13 expert times that becomes 8: a gain of {13 / 8:.2f}.",
            "the count; the gain would need a machine bound by its GPU",
        ),
        Contradiction(
            "4.1",
            "The order of the CPU's work is not stated.",
            "",
            "immediate(l), deferred(l), immediate(l + 1); nothing is deferred in the last layer",
        ),
    )
