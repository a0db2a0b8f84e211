"""Fitting a synthetic workload to a real trace or to targets."""
