"""The KV cache of a sequence: how many tokens it has room for, and how many are in it."""

from dataclasses import dataclass
from typing import Self

from moeopt.core.errors import InputError
from moeopt.core.options import Options, option
from moeopt.core.units import tokens_of

MOST_CONTEXT = 2**24

DEPTH, ALLOCATED = 500, 32768
"""What all commands take where nothing is said: a chat that has begun, in a cache of 32k."""


@dataclass(frozen=True)
class Context:
    """Tokens of a KV cache: those in it, which attention reads, and those it has room for."""

    depth: int = DEPTH
    allocated: int = ALLOCATED

    def __post_init__(self) -> None:
        """Raise InputError unless the tokens have room."""
        if not 0 <= self.allocated <= MOST_CONTEXT:
            said = f"must be from 0 to {MOST_CONTEXT}, not {self.allocated}"
            raise InputError(said, field="context")
        if not 0 <= self.depth <= self.allocated:
            said = f"must be from 0 to the {self.allocated} tokens allocated, not {self.depth}"
            raise InputError(said, field="depth")

    @classmethod
    def at(cls, depth: int) -> Self:
        """Return a cache with so many tokens in it, with room for as many as usual or as needed."""
        return cls(depth, max(depth, ALLOCATED))

    def in_words(self) -> str:
        """Return both numbers as every command prints them."""
        return f"at {self.depth:,} tokens of context, {self.allocated:,} allocated"


USUAL = Context()


@dataclass(frozen=True, kw_only=True)
class ContextOptions(Options):
    """Options of what the KV cache holds, the same for every command."""

    context: int = option(
        ALLOCATED, "Tokens that the KV cache has room for: 8192, 8k.", read=tokens_of, least=1
    )
    depth: int | None = option(
        None, f"Tokens in it; default: {DEPTH}, or all it has room for.", read=tokens_of
    )

    @property
    def cache(self) -> Context:
        """Both as one."""
        depth = min(DEPTH, self.context) if self.depth is None else self.depth
        return Context(depth, self.context)
