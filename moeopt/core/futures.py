"""Decisions for loads that are not known yet: what a sample of futures is, and what is minimised.

A problem with loads can be decided for what comes after them. Its module ``later`` has

    decide(observed, draw, search, futures)

which reports decisions to `search`: solutions of an instance whose scenarios were drawn by `draw`,
with their value on a fixed sample, as `Futures.value` defines it. What is drawn is the forecast's
business, `moeopt.sim.traces`; what is decided is the problem's. This is a two-stage stochastic
program solved by sample average approximation (Kleywegt, Shapiro and Homem-de-Mello, SIAM Journal
on Optimization 12, 2002).
"""

from collections.abc import Callable
from dataclasses import dataclass, fields
from math import ceil
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.json_files import JsonObject

Observed = TypeVar("Observed", bound=InstanceEnvelope)

MAX_SAMPLES = 256
"""Most futures of one sample: as many as an instance of `layout` has windows."""

MAX_HORIZON = 2**16

Draw = Callable[[int, int], Any]
"""``draw(number, stream)``: an instance whose loads are `number` futures, of weight 1 each.

The same arguments give the same instance; different streams are independent, so that one can be
decided on and another tell how good the decision is.
"""


LONGEST_NAME = 150
"""Signs of an observed instance's name that one drawn from it keeps."""


def drawn_from(observed: Observed, which: str, seed: int, stream: int, **loads: object) -> Observed:
    """Return the observed instance with other loads, named after the draw, of no provenance."""
    name = f"{observed.name[:LONGEST_NAME]}-{which}-seed{seed}-stream{stream}"
    return observed.model_copy(update={"name": name, "provenance": None, **loads})


@dataclass(frozen=True)
class Futures:
    """How method ``robust`` looks at what comes.

    Parameters
    ----------
    samples
        Futures that are drawn from the forecast to decide on, at most 256.
    quantile
        What is minimised: the cost that this share of the futures stays within, above 0 and at
        most 1; None: the mean.
    horizon
        For how many windows, or steps, after the observed ones the decision is to last.

    Raises
    ------
    InputError
        If a number is out of range; the message names it.

    Examples
    --------
    >>> import moeopt
    >>> moeopt.Futures(samples=64, quantile=0.9)
    Futures(samples=64, quantile=0.9, horizon=8)
    """

    samples: int = 128
    quantile: float | None = None
    horizon: int = 8

    def __post_init__(self) -> None:
        """Check the ranges."""
        for name, most in (("samples", MAX_SAMPLES), ("horizon", MAX_HORIZON)):
            number = getattr(self, name)
            if not isinstance(number, int | np.integer) or not 1 <= number <= most:
                raise InputError(f"{name}: must be from 1 to {most}, not {number}", field="futures")
        share = self.quantile
        if share is not None and not (isinstance(share, float | int) and 0 < share <= 1):
            raise InputError(
                f"quantile: must be above 0 and at most 1, not {share}", field="futures"
            )

    def value(self, costs: ArrayLike) -> int:
        """Return what is minimised: the sum of the futures' costs, or their quantile.

        Parameters
        ----------
        costs
            Integers, one per future, shape (futures,).
        """
        of_future = np.asarray(costs, dtype=np.int64)
        if self.quantile is None:
            return int(of_future.sum())
        at = ceil(round(self.quantile * len(of_future), 9)) - 1
        return int(np.partition(of_future, at)[at])

    @classmethod
    def from_text(cls, text: str) -> "Futures":
        """Return what ``samples=64,quantile=0.9`` says, as a command line has it.

        Raises
        ------
        InputError
            If an entry is not ``NAME=NUMBER`` with a known name, or a number is out of range.
        """
        known = [field.name for field in fields(cls)]
        given: JsonObject = {}
        for entry in text.split(","):
            name, _, number = (part.strip() for part in entry.partition("="))
            if name not in known or name in given:
                raise InputError(
                    f"{entry!r}: must be NAME=NUMBER, of {', '.join(known)}", field="futures"
                )
            try:
                given[name] = float(number) if name == "quantile" else int(number)
            except ValueError:
                raise InputError(
                    f"{name}: must be a number, not {number!r}", field="futures"
                ) from None
        return cls(**given)
