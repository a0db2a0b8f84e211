"""What sglang-kt's own parser makes of command lines: its definitions, taken out of their module.

The module itself imports all of SGLang. Of what the definitions name besides, defaults and lists of
choices, nothing is known here: such a choice is not checked.
"""

import argparse
import ast
import builtins
import json
import sys
from pathlib import Path
from typing import Any


class Anything:
    """Stands for what is not known: it has every attribute, and each value."""

    def __getattr__(self, _: str) -> "Anything":
        return self

    def __call__(self, *_: Any, **__: Any) -> "Anything":
        return self

    def __contains__(self, _: object) -> bool:
        return True

    def __add__(self, _: object) -> "Anything":
        return self

    def __iter__(self) -> Any:
        return iter(())


class Names(dict[str, Any]):
    """Names of a module: `Anything` for the unknown ones."""

    def __missing__(self, name: str) -> Any:
        return getattr(builtins, name, Anything())


given = json.loads(sys.argv[1])
path = Path(given["package"]) / "sglang" / "srt" / "server_args.py"
[function] = [
    node
    for node in ast.walk(ast.parse(path.read_text()))
    if isinstance(node, ast.FunctionDef) and node.name == "add_cli_args"
]
function.decorator_list = []
names = Names(DeprecatedAction=argparse.Action, LoRAPathAction=argparse.Action)
exec(compile(ast.Module([function], []), str(path), "exec"), names)
parser = argparse.ArgumentParser()
names["add_cli_args"](parser)
read = [vars(parser.parse_args(line)) for line in given["lines"]]
print(json.dumps([{name: one[name] for name in given["names"]} for one in read]))
