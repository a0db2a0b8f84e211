"""Comparing what documents say: words and the order of rows, numbers within a share."""

import re

NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


def assert_same_facts(made: str, kept: str, share: float = 0.02) -> None:
    """Compare texts: the same words, numbers apart by at most a share or two of their last digits.

    Widths of columns do not count. What rests on floats may end in other digits on another
    processor; a row, a name or a size that changes does not pass.
    """
    words = [" ".join(NUMBER.sub("#", text).split()) for text in (made, kept)]
    assert words[0] == words[1]
    for one, other in zip(NUMBER.findall(made), NUMBER.findall(kept), strict=True):
        if one != other:
            values = [float(number.replace(",", "")) for number in (one, other)]
            step = max(10.0 ** -len(n.partition(".")[2]) for n in (one, other))
            slack = max(2.01 * step, share * max(values))
            assert abs(values[0] - values[1]) <= slack, (one, other)
