"""How many experts each layer defers, so that GPU and CPU overlap (KTransformers 4.2)."""
