"""The statements of a source, without its expressions, which are most of a syntax tree."""

import ast
from collections.abc import Iterator

BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""Fields that hold statements, or what holds some."""


def statements(node: ast.AST) -> Iterator[ast.AST]:
    """Yield all statements below a node, in no order that counts."""
    waiting = [node]
    while waiting:
        inner = waiting.pop()
        for name in BLOCKS:
            block = getattr(inner, name, None)
            if isinstance(block, list):  # a lambda's body is an expression
                yield from block
                waiting += block
