"""Pins of the oldest versions that pyproject.toml allows, one per line: a constraints file of pip.

python .github/oldest.py > oldest.txt && pip install -e '.[test]' -c oldest.txt
"""

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]

for requirement in PROJECT["dependencies"]:
    if found := re.match(r"([\w-]+)(?:\[.*?\])?>=([\d.]+)", requirement):
        # The release that the bound names, whatever its last number: OR-tools' has four digits.
        print(f"{found[1]}=={found[2]}.*" if found[1] == "ortools" else f"{found[1]}=={found[2]}")
