"""What sglang-kt makes of counts and a ratio: its own functions, taken out of their module.

The module itself imports all of SGLang. The functions need torch, and of the package kt-kernel the
function that picks the experts.
"""

import ast
import json
import logging
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from kt_kernel.experts_base import generate_gpu_experts_masks

given = json.loads(sys.argv[1])
path = Path(given["package"]) / "sglang" / "srt" / "layers" / "moe" / "kt_ep_wrapper.py"
tree = ast.parse(path.read_text())
functions = [
    node
    for node in tree.body
    if isinstance(node, ast.FunctionDef)
    and ("kt_expert_placement_strategy" in ast.unparse(node) or node.name.endswith("_masks"))
]
[name] = [node.name for node in functions if "kt_expert_placement_strategy" in ast.unparse(node)]
names: dict[str, Any] = {
    "torch": torch,
    "dist": torch.distributed,
    "logger": logging.getLogger("kt"),
    "generate_gpu_experts_masks": generate_gpu_experts_masks,
    "get_tensor_model_parallel_rank": lambda: 0,
    "_KT_GPU_EXPERTS_MASKS": None,
    "Optional": Any.__class__,
    "ServerArgs": object,
}
future = ast.parse("from __future__ import annotations").body
exec(compile(ast.Module([*future, *functions], []), str(path), "exec"), names)
config = SimpleNamespace(**given["config"], text_config=None)
arguments = SimpleNamespace(
    get_hf_config=lambda: config,
    kt_gpu_experts_ratio=given.get("ratio"),
    kt_num_gpu_experts=given.get("count"),
    kt_expert_placement_strategy=given.get("strategy", "frequency"),
    init_expert_location=given.get("counts"),
)
masks = names[name](arguments)
print(json.dumps([torch.nonzero(row).flatten().tolist() for row in masks]))
