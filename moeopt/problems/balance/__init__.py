"""How many slices of each expert the GPU takes over from the NDP units (edge GPU-NDP, Eq. 1-3)."""
