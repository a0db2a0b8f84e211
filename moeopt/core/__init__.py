"""Below the problems: compiled loops, and HiGHS on plain arrays. Knows nothing of MoE."""
