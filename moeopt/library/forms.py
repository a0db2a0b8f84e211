"""A certificate by whichever of an instance's models proves most."""

from collections.abc import Iterator
from typing import Any

from moeopt.core.clock import TimeLimitError, solving_clock, told
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.library.emit import Proof, certify
from moeopt.library.lemmas import LEMMAS
from moeopt.library.model import Form
from moeopt.library.weights import found_places, found_weights


def forms(instance: InstanceEnvelope, below: int) -> Iterator[Form | None]:
    """Yield the forms for what costs less than `below`, the likeliest first; None: exact model."""
    known: Any = instance
    for lemma in LEMMAS.get(instance.problem, ()):
        if instance.problem == "relayout":
            yield {"lemma": lemma, "below": below, "places": found_places(known, below)}
        elif lemma != "packing weights":
            yield {"lemma": lemma, "below": below}
        elif len(known.scenarios) == 1:
            yield {"lemma": lemma, "below": below, "weights": found_weights(known, below)}
    yield None


def best_certificate(
    instance: InstanceEnvelope, upper: int, limit_s: float, max_nodes: int, exact: bool = True
) -> Proof:
    """Return the certificate of the highest bound.

    Parameters
    ----------
    upper
        The objective of a known solution, in steps.
    limit_s, max_nodes
        When to stop, in all, and with each model.
    exact
        Whether to try the exact model where one by a lemma has given a certificate.

    Raises
    ------
    InputError
        If no model gives any.
    """
    clock = solving_clock()
    end, best, reason = clock.now() + limit_s, None, "nothing costs less than 1"
    tried = list(forms(instance, upper)) if upper > 0 else [None]
    # The root of each first, where there are several that a lemma makes: one may say it all.
    rounds = [(form, max_nodes) for form in tried]
    if len(tried) > 2:
        rounds = [(form, 1) for form in tried if form is not None] + rounds
    for form, nodes in rounds:
        if form is None and best is not None and not exact:
            break
        try:
            with told(end, gives_up=best is not None):
                found = certify(instance, upper, (end - clock.now()) / 2, nodes, form)
        except TimeLimitError:
            break
        except InputError as error:
            reason = str(error)
            continue
        if best is None or found["bound"] > best["bound"]:
            best = found
        if best["bound"] == upper:
            break
    if best is None:
        raise InputError(reason)
    return best
