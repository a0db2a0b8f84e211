"""A predicted speed at a depth of the KV cache, and how JSON has it in every command."""

from typing import NamedTuple

from moeopt.sim.machines.runtimes.context import Context


class Speed(NamedTuple):
    """Tokens per second at so many tokens of context, with the ends of 80 % intervals.

    What is not predicted is None: a prompt that nobody asked for, an interval of rates that were
    not fitted.
    """

    depth: int
    decode: float
    low: float
    high: float
    prompt: float | None = None
    prompt_low: float | None = None
    prompt_high: float | None = None

    def to_dict(self) -> dict[str, float | None]:
        """Return the speed as JSON values."""
        return {
            "depth": self.depth,
            "decode_tokens_per_s": self.decode,
            "decode_low": self.low,
            "decode_high": self.high,
            "prompt_tokens_per_s": self.prompt,
            "prompt_low": self.prompt_low,
            "prompt_high": self.prompt_high,
        }


def speeds_as_dict(context: Context, *speeds: Speed) -> dict[str, object]:
    """Return speeds as the JSON of ``predict`` and ``plan`` has them: the first one's interval."""
    return {
        "speeds": [speed.to_dict() for speed in speeds],
        "interval": {"low": speeds[0].low, "high": speeds[0].high},
        "context_allocated": context.allocated,
    }
