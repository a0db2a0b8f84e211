"""The flags of our command lines in the source of llama.cpp's own parser.

``LLAMA_CPP_SOURCE`` names its tree, such as ``vendor/llama.cpp`` of the sources of llama-cpp-python
0.3.36. The parser itself is not built: an option's definition has its names, and a text for each
value that it takes.
"""

import re

import pytest

from tests.exporters.llama_cpp_arguments import ALONE, CACHES, VALUES
from tests.runtimes.consumers import source

pytestmark = pytest.mark.runtimes

OPTION = re.compile(r"common_arg\(\s*\{([^}]*)\},\s*(\"(?:[^\"\\\\]|\\\\.)*\"|[^,]*),\s*([^\n]*)")


def test_every_flag_is_an_option_with_as_many_values() -> None:
    """One text before the help for those with a value, none for the others; its choices."""
    text = source("LLAMA_CPP_SOURCE", "common/arg.cpp", "llama.cpp").read_text()
    found = {}
    for names, first, second in OPTION.findall(text):
        takes = first.startswith('"') and not second.startswith("[")
        for name in re.findall(r'"([^"]+)"', names):
            found[name] = first if takes else ""
    for name in VALUES:
        assert found.get(name), name
    for name in ALONE:
        assert found.get(name) == "", name
    assert "--no-mmap" not in found
    for mode in ("none", "layer", "row", "tensor"):
        assert mode in found["-sm"]
    modes = re.search(r"--load-mode(.*?)LLAMA_ARG_LOAD_MODE", text, re.DOTALL)
    assert modes
    assert 'value == "none"' in modes[1]
    kinds = re.search(r"kv_cache_types = \{(.*?)\}", text, re.DOTALL)
    assert kinds
    assert {kind.lower() for kind in re.findall(r"GGML_TYPE_(\w+)", kinds[1])} == set(CACHES)
