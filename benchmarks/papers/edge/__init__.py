"""A scheduling framework for edge GPU-NDP systems: tensor parallelism, balance, prefetching."""
