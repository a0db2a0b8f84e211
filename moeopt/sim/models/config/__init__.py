"""Parts of a Hugging Face ``config.json``: keys, attention, layers with experts, quantisation."""
