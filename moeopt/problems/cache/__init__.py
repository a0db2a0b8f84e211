"""How many GPU cache ways each layer gets for its experts (CPU-GPU collaborative, III-B)."""
