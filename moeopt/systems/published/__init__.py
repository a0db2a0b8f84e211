"""The published systems, a module each."""
