"""Models: their shapes, from config.json and GGUF files; quantisations, and what they lose."""
