"""The study: methods against the optimum, on many instances."""
