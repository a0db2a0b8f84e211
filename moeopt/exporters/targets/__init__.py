"""One module for each consumer of plans and instances; each declares its `TARGETS`."""
