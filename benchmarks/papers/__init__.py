"""The published figures of five papers, and what faithful models of their systems give instead."""
