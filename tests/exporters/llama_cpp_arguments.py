"""llama.cpp's reading of a command line, from the description of its options in common/arg.cpp.

Read at commit 0c1e570: names, how many values each takes, what is no value (its own parser reads
the lines in tests/runtimes/test_arguments.py). ik_llama.cpp has ``-mla`` and still
``--no-mmap`` beside them.
"""

import re

CACHES = ("f32", "f16", "bf16", "q8_0", "q4_0", "q4_1", "iq4_nl", "q5_0", "q5_1")
BUFFER = r"CPU|CUDA\d+"
INTEGER = r"-?\d+"
VALUES = {
    "-m": r".+",
    "-ngl": INTEGER,
    "-c": INTEGER,
    "-b": INTEGER,
    "-ub": INTEGER,
    "-t": INTEGER,
    "--n-cpu-moe": r"\d+",
    "-fa": r"on|off|auto",
    "-ctk": "|".join(CACHES),
    "-ctv": "|".join(CACHES),
    "-sm": r"none|layer|row|tensor",
    "-ts": r"[\d.]+([,/][\d.]+){0,15}",
    "-ot": rf"[^,=]+=({BUFFER})(,[^,=]+=({BUFFER}))*",
    "--device": r"none|CUDA\d+(,CUDA\d+)*",
    "--numa": r"distribute|isolate|numactl",
    "--load-mode": r"auto|none|mmap|mlock|mmap\+mlock|dio",
}
"""Option -> what its value must be, as a whole."""

ALONE = ("--cpu-moe",)
OF_IK = {"-mla": r"[0-3]"}
ALONE_OF_IK = ("--no-mmap", "--cpu-moe")


def parsed(words: list[str], *, ik: bool = False) -> dict[str, str]:
    """Return option -> value; AssertionError where the program would refuse the line."""
    values = VALUES | (OF_IK if ik else {})
    alone = ALONE_OF_IK if ik else ALONE
    found: dict[str, str] = {}
    at = 0
    while at < len(words):
        name = words[at]
        assert name not in found, f"{name} twice"
        if name in alone:
            found[name], at = "", at + 1
            continue
        assert name in values, f"invalid argument: {name}"
        assert at + 1 < len(words), f"expected value for argument: {name}"
        assert re.fullmatch(values[name], words[at + 1]), f"invalid value: {name} {words[at + 1]}"
        found[name], at = words[at + 1], at + 2
    return found
