"""Plans in the formats of the runtimes that carry them out."""
