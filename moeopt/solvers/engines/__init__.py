"""The MILP solvers: each module turns a PuLP model into an `Answer`."""
