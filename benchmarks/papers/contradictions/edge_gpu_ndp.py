"""Edge GPU-NDP: what the paper leaves open, and where it contradicts itself."""

from benchmarks.papers.contradictions import Contradiction


def contradictions() -> tuple[Contradiction, ...]:
    """Return them with their arithmetic."""
    token_s = 64 * 0.8e9
    return (
        Contradiction(
            "Eq. 1",
            "The unhidden rest E_g' is the fraction of E_g over N, but 1/N at multiples of N.",
            "At N = 4 and E_g = 1 that is 0, although the last chunk cannot be hidden either; at"
            " E_g = 0 it is 1/4, although nothing is computed.",
            "1/N at positive multiples of N and at TopK, 0 at 0 and at the other whole numbers,"
            " else the fraction over N",
        ),
        Contradiction(
            "Eq. 1, roots",
            "The left side rises but jumps down by T_g/N just after whole numbers, so that there"
            " may be two roots.",
            "",
            "the least root; 0 where it is positive already at 0, all experts where it never is",
        ),
        Contradiction(
            "Eq. 2",
            "(S - 1) T_a N stands on the GPU's side, although it is traffic to the NDP units; one"
            " T_n serves for all experts, whose tokens differ.",
            "",
            "occupancy of the link, due if any work stays on the units; costs per expert",
        ),
        Contradiction(
            "Eq. 3",
            "E_max can exceed the number of experts.",
            "(1 + N) T_a > TopK T_g makes it so.",
            "clamped, and rounded down",
        ),
        Contradiction(
            "Table I and IV-D, prefill",
            "64 multipliers at 0.8 GHz keep up with 102.4 GB/s for one token and no more.",
            f"64 x 0.8 GHz = {token_s / 1e9:.1f} G multiplications/s; 102.4 GB/s bring"
            f" {102.4 / 2:.1f} G weights of 2 bytes/s. Prefill with hundreds of tokens per expert"
            " would be that many times slower on the units, and E5 cannot come out.",
            "the prefill rate of the units is a free parameter, and E5 says so",
        ),
        Contradiction(
            "slices",
            "Experts are cut into N equal slices; the sizes do not divide.",
            "; ".join(f"{size} mod 6 = {size % 6}" for size in (1408, 4096, 14336)) + ".",
            "rounded up",
        ),
        Contradiction(
            "IV-C",
            "5.49 over on-demand and 4.05 over Fiddler carry little beyond bandwidths.",
            f"5.49 / 4.05 = {5.49 / 4.05:.3f}; 89.6 GB/s of host memory over 64 GB/s of PCIe ="
            f" {89.6 / 64:.3f}.",
            "the quotient is noted with E7",
        ),
    )
