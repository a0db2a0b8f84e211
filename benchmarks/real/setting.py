"""The settings that are measured: the weights' width, experts per token, threads."""

from dataclasses import dataclass
from itertools import product
from typing import Self

WIDTHS = ("Q8_0", "Q4_0")
TOP_KS = (2, 4, 8)
CALIBRATED_AT = (2, 8)
"""Experts per token of the two points that a calibration gets; the rest is predicted."""


@dataclass(frozen=True)
class Setting:
    """A model and the number of threads that compute."""

    width: str
    top_k: int
    threads: int

    @classmethod
    def all(cls, thread_counts: list[int]) -> list[Self]:
        """Return every combination, by width, threads and experts per token."""
        return [cls(w, k, t) for w, t, k in product(WIDTHS, thread_counts, TOP_KS)]

    @property
    def model(self) -> str:
        """The first shard's file name."""
        return f"random-{self.width.lower()}-top{self.top_k}-00001-of-00002.gguf"

    @property
    def calibrates(self) -> bool:
        """Whether a calibration is given it."""
        return self.top_k in CALIBRATED_AT

    def __str__(self) -> str:
        return f"{self.width.lower()}-top{self.top_k}-t{self.threads}"
