"""Predicted speeds at depths of the KV cache, and how JSON has them in every command."""

from collections.abc import Sequence
from typing import NamedTuple

from moeopt.sim.machines.runtimes.context import Context

DEPTHS = (0, 4096, 32768)
"""Beside the depth that is asked for and the full cache, speeds are predicted at these."""


class Speed(NamedTuple):
    """Tokens per second at so many tokens of context, with the ends of 80 % intervals.

    `prompt` is the rate at which the prompt asked for is read into an empty cache, or else one
    that fills it to this depth, of one ubatch at least. What is unknown has None as interval.
    """

    depth: int
    decode: float
    low: float | None
    high: float | None
    prompt: float | None = None
    prompt_low: float | None = None
    prompt_high: float | None = None

    @property
    def within(self) -> str:
        """The interval in words."""
        return "-" if self.low is None else f"{self.low:g} to {self.high:g}"

    @property
    def prompt_within(self) -> str:
        """The interval of the prompt's rate in words."""
        low, high = self.prompt_low, self.prompt_high
        return "-" if low is None else f"{low:g} to {high:g}"

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


def depths_of(context: Context) -> tuple[int, ...]:
    """Return the depths to predict: the one asked for, then others up to the full cache."""
    others = sorted({*DEPTHS, context.allocated} - {context.depth})
    return (context.depth, *(depth for depth in others if depth <= context.allocated))


class WithSpeeds:
    """What speeds are predicted of; the first of them is at the depth that was asked for."""

    speeds: tuple[Speed, ...]

    def first(self) -> dict[str, object]:
        """Return as JSON values what is told first of a prediction: speed, blocks, bottleneck."""
        names = ("tokens_per_s", "low", "high", "prompt_tokens_per_s", "n_cpu_moe", "bottleneck")
        return {name: getattr(self, name) for name in names}

    @property
    def tokens_per_s(self) -> float:
        """Decoded tokens per second."""
        return self.speeds[0].decode

    @property
    def low(self) -> float | None:
        """Lower end of the 80 % interval."""
        return self.speeds[0].low

    @property
    def high(self) -> float | None:
        """Upper end of the 80 % interval."""
        return self.speeds[0].high

    @property
    def prompt_tokens_per_s(self) -> float | None:
        """Tokens per second at which a prompt is read."""
        return self.speeds[0].prompt


def speed_at(
    depth: int, token_us: float, factor: float, prompt: float, prompt_factor: float
) -> Speed:
    """Return the speed of tokens of so many microseconds, in digits as it is printed.

    Intervals of decoding and of reading a prompt are of these factors.
    """
    found = []
    for speed, ways in ((1e6 / token_us, factor), (prompt, prompt_factor)):
        found += [four_digits(each) for each in (speed, speed / ways, speed * ways)]
    return Speed(depth, *found)


def speeds_as_dict(context: Context, speeds: Sequence[Speed]) -> dict[str, object]:
    """Return speeds as the JSON of ``predict`` and ``plan`` has them: the first one's interval."""
    return {
        "speeds": [speed.to_dict() for speed in speeds],
        "interval": {"low": speeds[0].low, "high": speeds[0].high},
        "context_allocated": context.allocated,
    }


def speeds_in_words(speeds: Sequence[Speed]) -> list[str]:
    """Return a table of speeds for people, a line each."""
    heads = f"{'context':>8} {'tokens/s':>9} {'80 %':>17} {'prompt/s':>9} {'80 %':>17}"
    lines = [f"  {heads}"]
    for one in speeds:
        prompt = "-" if one.prompt is None else f"{one.prompt:g}"
        within = f"{one.within:>17} {prompt:>9} {one.prompt_within:>17}"
        lines.append(f"  {one.depth:8,} {one.decode:9g} {within}")
    return lines


def four_digits(value: float) -> float:
    """Return a speed as it is printed."""
    return float(f"{value:.4g}")
