"""The instance library as a benchmark: tables of what is known, submissions, bounds entered."""
