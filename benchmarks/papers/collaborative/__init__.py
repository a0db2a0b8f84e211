"""CPU-GPU collaborative inference: a cache of experts on the GPU, misses on the CPU."""
