"""CPU-GPU collaborative: what the paper leaves open, and where it contradicts itself."""

from benchmarks.papers.contradictions import Contradiction
from benchmarks.rooms.sim import get_model

LAYERS = 32
REST_S = 0.020
"""Time per token outside the experts: 917 - 897 ms (Mixtral) and 413 - 392 ms (Phi)."""


def contradictions() -> tuple[Contradiction, ...]:
    """Return them with their arithmetic."""
    size = get_model("mixtral-8x7b").expert_bytes
    one, two = size / 28.02e-3 / 1e9, 2 * size / 28.02e-3 / 1e9
    per_expert = 1 / (LAYERS * 2 * 7.34e-3 + REST_S)
    per_layer = 1 / (LAYERS * 7.34e-3 + REST_S)
    sixteen = 1 / (LAYERS * 10.96e-3 + REST_S)
    return (
        Contradiction(
            "Table III",
            'Times are called those of an "expert" and of an "expert layer".',
            f"28.02 ms for one expert would be {one:.1f} GB/s on PCIe 4.0 x16, for two"
            f" {two:.1f}. CPU only at 7.34 ms per expert gives {per_expert:.2f} tokens/s, per layer"
            f" {per_layer:.2f}; 4.8 are published with the cache.",
            "per layer of two experts: CPU 3.67, fetch 14.01, GPU 0.125 ms per expert",
        ),
        Contradiction(
            "Table III, GPU",
            "0.25 ms on the GPU is less than its memory needs.",
            f"two experts, {2 * size / 1e6:.0f} MB / 1008 GB/s = {2 * size / 1008e6:.2f} ms.",
            "as stated; the CPU dominates",
        ),
        Contradiction(
            "Table V, 16 threads",
            "Energy per token and speed do not agree.",
            f"The energy implies 4.2 tokens/s; CPU only has {sixteen:.2f} from Table III, so that"
            f" the cache would bring {4.2 / sixteen - 1:.0%}, and the text says 15-35 %.",
            "kept as a miss",
        ),
        Contradiction(
            "IV-B, Fiddler",
            "1.6 times Fiddler cannot come from hits alone.",
            "A static choice hits 0.233, LRU with (14; 4) 0.271: nearly the same speed.",
            "G6 is reported as a miss",
        ),
        Contradiction(
            "IV-C, (29; 2)",
            "The cache is larger than the memory.",
            f"29 x 2 = {29 * 2} slots, 56 are available.",
            "computed as stated, and with 28 x 2",
        ),
        Contradiction(
            "III-B, updates",
            "Whether a token's second expert is looked up before or after the first one's miss"
            " evicts is not stated.",
            "",
            "both are looked up, then the cache is updated in the order listed",
        ),
        Contradiction(
            "III-C, copy queue",
            "Nothing says how long the queue of copies may be.",
            "",
            "without bound; with one, fetches are dropped and hits fall",
        ),
    )
