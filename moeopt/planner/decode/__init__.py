"""Decode steps under a plan: what is decided for each step, and two ways of timing it."""
