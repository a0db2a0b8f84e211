"""The evidence: every finding from public traces, on layers drawn at random, by one command."""
