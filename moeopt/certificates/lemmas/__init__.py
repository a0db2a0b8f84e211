"""Models that rest on a lemma of a problem's specification, smaller or tighter than its rules.

Each holds every solution that costs less than ``form["below"]``, for the lemma's reason: so a
bound that is proven of it, and is no greater, is one of the instance.
"""

from collections.abc import Callable, Mapping
from typing import Any

from moeopt.certificates.lemmas.layout import packing_weights
from moeopt.certificates.lemmas.placement import envelopes, envelopes_and_full_rows
from moeopt.certificates.lemmas.plans import of_fixed_layout, of_migrations
from moeopt.certificates.lemmas.rows import LemmaModel
from moeopt.certificates.lemmas.small import (
    link_and_units,
    number_of_layers,
    numbers_of_copies,
    numbers_of_layers,
    usual_order,
)

Builder = Callable[[Any, int, Mapping[str, Any]], LemmaModel]
"""(instance, below, form) -> the model."""

LEMMAS: Mapping[str, Mapping[str, Builder]] = {
    "balance": {"closed form": link_and_units},
    "cache": {"number of layers": number_of_layers},
    "deferral": {"usual order": usual_order},
    "layout": {"packing weights": packing_weights},
    "placement": {"envelopes": envelopes, "envelopes, full rows": envelopes_and_full_rows},
    "relayout": {"plans": of_migrations},
    "replication": {"numbers of copies": numbers_of_copies},
    "split": {"numbers of layers": numbers_of_layers},
    "tri_domain": {"plans": of_fixed_layout},
}
"""Problem -> lemma -> its model."""
