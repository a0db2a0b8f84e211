"""Forecasts of loads: fitted to windows that were observed, sampled for decisions that last."""
