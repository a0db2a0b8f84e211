"""Model shapes out of Hugging Face ``config.json`` files."""
