"""What a plan is to be the best for."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from moeopt.core.errors import InputError

if TYPE_CHECKING:
    from moeopt.sim.machines.runtimes.speeds import Speed


@dataclass(frozen=True)
class Goal:
    """What a plan is for: tokens of a prompt and of a reply."""

    prompt: int = 0
    reply: int = 1

    def __post_init__(self) -> None:
        """Raise InputError unless there is a request."""
        if self.prompt < 0:
            raise InputError(f"must be at least 0, not {self.prompt}", field="prompt")
        if self.reply < 1:
            raise InputError(f"must be at least 1, not {self.reply}", field="reply")

    def seconds(self, speed: "Speed") -> float:
        """Return the time of a request."""
        reading = self.prompt / speed.prompt if self.prompt and speed.prompt else 0.0
        return reading + self.reply / speed.decode

    def in_words(self) -> str:
        """Return what the best plan is the best for."""
        if self.prompt:
            return f"prompts of {self.prompt:,} tokens and replies of {self.reply:,}"
        return "decoding; with equal speeds, prompts"


DECODING = Goal()
"""Tokens, one after the other."""
