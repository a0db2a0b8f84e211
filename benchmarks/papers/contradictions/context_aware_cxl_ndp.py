"""Context-aware CXL-NDP: what the paper leaves open, and where it contradicts itself."""

from benchmarks.papers.contradictions import Contradiction


def contradictions() -> tuple[Contradiction, ...]:
    """Return them with their arithmetic."""
    three, two = 16 / 3.25, 16 / 2.25
    return (
        Contradiction(
            "4.2, prefix split",
            "R = E_NDP (b - 1) need not be whole.",
            "For 7 experts at 2.5 bits it is 10.5.",
            "rounded down",
        ),
        Contradiction(
            "4.2, budget",
            "The budget is an equality; where more bits do not always lower the loss it forces"
            " harmful upgrades.",
            "",
            "the equality for prefix-split, at most the budget for exact models",
        ),
        Contradiction(
            "4.2, loops",
            "The loops over n4 and n3 leave out n2 <= E_NDP - n4 - n3.",
            "",
            "added; ties go to the first (n4, n3)",
        ),
        Contradiction(
            "4.1, norm; 4.2, range",
            '"Norm" is not defined; indices "1..E" mean the NDP experts only.',
            "",
            "divided by the layer's sum; NDP experts",
        ),
        Contradiction(
            "5.2, sizes",
            "Latency falls by 5 and 8 at 3 and 2 bits, which leaves out the scales.",
            f"16/3 = {16 / 3:.2f} and 16/2 = {16 / 2:.2f}; with a 16-bit scale per 64 weights"
            f" 16/3.25 = {three:.2f} and 16/2.25 = {two:.2f}.",
            "without scales, as the paper",
        ),
    )
