"""The published systems, what executes them and plans, and how they compare."""
