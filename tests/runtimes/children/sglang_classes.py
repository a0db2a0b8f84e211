"""The classes in SGLang's models that take an expert map, by their sources; none is imported."""

import ast
import json
import sys
from pathlib import Path

HOOK = "get_model_config_for_expert_location"

given = json.loads(sys.argv[1])
bases: dict[str, list[str]] = {}
having: set[str] = set()
served: set[str] = set()
for file in sorted((Path(given["package"]) / "sglang" / "srt" / "models").rglob("*.py")):
    tree = ast.parse(file.read_text("utf-8-sig"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            names = [getattr(base, "id", getattr(base, "attr", "")) for base in node.bases]
            bases.setdefault(node.name, []).extend(names)
            if any(getattr(part, "name", "") == HOOK for part in node.body):
                having.add(node.name)
    for statement in tree.body:
        if isinstance(statement, ast.Assign):
            names = [getattr(target, "id", "") for target in statement.targets]
            listed = getattr(statement.value, "elts", [statement.value])
            if "EntryClass" in names:
                served |= {getattr(name, "id", "") for name in listed}


def takes(name: str, seen: tuple[str, ...] = ()) -> bool:
    """Tell whether a class or one that it is derived from has the hook."""
    more = [base for base in bases.get(name, []) if base not in seen]
    return name in having or any(takes(base, (*seen, name)) for base in more)


print(json.dumps({name: takes(name) for name in sorted(served - {""})}))
