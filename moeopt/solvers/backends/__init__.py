"""One module per kind of method, each with ``run(task) -> Outcome``."""
