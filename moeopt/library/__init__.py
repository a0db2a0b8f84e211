"""The instance library as a benchmark: tables of what is known, submissions, certified bounds."""
