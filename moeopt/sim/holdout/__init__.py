"""Decisions on loads that came later: splitting a trace, and running what was decided before."""
