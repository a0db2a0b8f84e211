"""Which experts the GPU holds, and how wide the others are (5.1)."""

MACHINE = "cxl-ndp"

HOT = {"mixtral-8x7b": 4, "mixtral-8x22b": 2}
"""Experts of a layer on the GPU, in FP16, by model."""

FULL = 16.0
"""Bits of FP16."""

WIDTHS = (3.0, 2.0)
"""Average bits of the experts on the NDP device: Ours-3bit and Ours-2bit."""

HOBBIT_BITS = 4.0
"""Bits in which a HOBBIT-like system loads an expert that is not on the GPU."""
