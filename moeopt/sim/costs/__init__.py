"""What a step takes: the one place that turns bytes and operations into time."""
