"""Certificates of lower bounds: models in integers, proofs of a bound, and what checks them."""
