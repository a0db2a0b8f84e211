"""Expert scheduling on a fixed layout: GPU, CPU or DIMM-NDP for each expert (TriMoE 4.2)."""
