"""Planning: all decisions for a machine, a model and a trace, checked on held-out steps."""
