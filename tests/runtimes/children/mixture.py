"""What Mixture-Compressor reads of a file of bits: its own statements, taken out of `main.py`."""

import ast
import json
import pickle
import sys
from pathlib import Path
from typing import Any

given = json.loads(sys.argv[1])
tree = ast.parse(Path(given["source"]).read_text())
mixed = next(
    node.body
    for node in ast.walk(tree)
    if isinstance(node, ast.If) and ast.unparse(node.test) == "args.mixed_type == 'mixed'"
)
with Path(given["file"]).open("rb") as stream:
    bit_config = pickle.load(stream)  # as the tool does
found = []
for layer in range(given["layers"]):
    names: dict[str, Any] = {"bit_config": bit_config, "i": layer}
    exec(compile(ast.Module(mixed, []), "main.py", "exec"), names)
    found.append([names["low_bit_experts"], names["high_bit_experts"]])
print(json.dumps(found))
