"""TensorRT-LLM's configuration of its load balancer on a map; prints the experts of its slots.

The class is taken out of the module, which imports all of TensorRT-LLM; what reads the file is what
its own script for such files does.
"""

import ast
import json
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional  # noqa: UP035 - names that the class uses

import yaml
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

NAME = "MoeLoadBalancerConfig"


class StrictBaseModel(BaseModel):
    """Its base: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


given = json.loads(sys.argv[1])
text = Path(given["source"]).read_text()
[found] = [
    node for node in ast.parse(text).body if isinstance(node, ast.ClassDef) and node.name == NAME
]
names: dict[str, Any] = {
    "StrictBaseModel": StrictBaseModel,
    **{"Any": Any, "Dict": Dict, "List": List, "Optional": Optional},  # noqa: UP006
    **{"Field": Field, "PrivateAttr": PrivateAttr},
}
exec(ast.get_source_segment(text, found) or "", names)
config = names[NAME](**yaml.safe_load(Path(given["map"]).read_text()))
slots: list[list[list[int]]] = []
for rank in range(given["ep_size"]):
    config.setup(ep_rank=rank, ep_size=given["ep_size"])
    slots.append(
        [
            config.get_layer_initial_global_assignments(layer)[config.slot_start : config.slot_end]
            for layer in given["layers"]
        ]
    )
print(json.dumps({"slots": slots, "updates": config.layer_updates_per_iter}))
