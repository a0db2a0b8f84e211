"""Plans: everything that is decided about running a model on a machine, in one file."""
