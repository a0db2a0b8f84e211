"""GGUF files of llama.cpp: what they say of a model, without its weights."""
