"""TriMoE (GPU, AMX-CPU and DIMM-NDP): its baselines, ablation and sensitivity."""
