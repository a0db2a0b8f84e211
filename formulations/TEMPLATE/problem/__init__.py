"""Which experts stay in GPU memory: a knapsack with a least number of items."""
