"""Algorithms that several problems share. They know no problem."""
