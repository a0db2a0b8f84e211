"""Cold experts by TriMoE's assumption ``cold_cut``.

TriMoE 3.1 says that the cold experts are "over 70% of all experts" and process "only 8% of tokens".
Where popularity is as skewed as in the paper both cuts are the same; where it is flatter they are
not, and a cut says which of the two it means.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from moeopt.core.errors import InputError
from moeopt.core.wording import shown

DEFAULT = "tokens 0.08"
"""The coldest experts that together hold at most 8 % of the tokens (TriMoE 3.1)."""


@dataclass(frozen=True)
class ColdCut:
    """A share of the tokens or of the experts, from 0 to 1.

    Attributes
    ----------
    of
        "tokens": the coldest experts that together hold at most `share` of all tokens.
        "experts": the coldest `share` of the experts, rounded to whole ones.
    """

    of: Literal["tokens", "experts"]
    share: float

    @classmethod
    def parse(cls, text: str) -> "ColdCut":
        """Return the cut that an assumption's value means, e.g. ``"tokens 0.08"``.

        Raises
        ------
        InputError
            If it is neither "tokens" nor "experts" and a number from 0 to 1.
        """
        kind, _, number = text.strip().partition(" ")
        try:
            share = float(number)
        except ValueError:
            share = -1.0
        if kind not in ("tokens", "experts") or not 0 <= share <= 1:
            right = "'tokens X' or 'experts X' with X from 0 to 1"
            raise InputError(f"cold_cut: must be {right}, not {shown(text)}")
        return cls("tokens" if kind == "tokens" else "experts", share)

    def count(self, loads: Sequence[int]) -> int:
        """Return how many of the coldest experts are cold.

        Parameters
        ----------
        loads
            What each expert counts, in any order: its tokens, or a weighted sum of them.
        """
        if self.of == "experts":
            return round(self.share * len(loads))
        # In whole numbers: 8 % of 100 tokens are 8 tokens, whatever a float makes of 0.08.
        room, held = Fraction(repr(self.share)) * sum(loads), 0
        for cold, load in enumerate(sorted(loads)):
            held += load
            if held > room:
                return cold
        return len(loads)
