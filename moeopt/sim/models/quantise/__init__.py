"""Quantising weight matrices to few bits, and what their outputs lose by it."""
