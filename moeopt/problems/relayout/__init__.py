"""Which expert migrations fit into the overlap window before the next layer (TriMoE 4.3)."""
