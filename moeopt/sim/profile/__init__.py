"""Measuring an expert on this machine, for the time tables of machine files."""
