"""vllm-ascend's own reading of a static expert map: device by device, for each layer and rank."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from stand_ins import stand_in

given = json.loads(sys.argv[1])
stand_in("vllm.logger", logger=SimpleNamespace(info=print, warning=print))
stand_in(
    "vllm.model_executor.layers.fused_moe.expert_map_manager", determine_expert_map=lambda: None
)
stand_in("vllm.model_executor.layers.fused_moe.layer", determine_expert_map=lambda: None)
torch.Tensor.npu = lambda self: self  # type: ignore[attr-defined]
path = Path(given["package"]) / "vllm_ascend" / "eplb" / "core" / "eplb_utils.py"
spec = importlib.util.spec_from_file_location("eplb_utils", path)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
config = SimpleNamespace(expert_map_path=given["map"], dynamic_eplb=False, num_redundant_experts=0)
found = []
for layer in range(given["layers"]):
    ranks = []
    for rank in range(given["devices"]):
        moe = SimpleNamespace(num_experts=given["experts"], ep_size=given["devices"], ep_rank=rank)
        _, local, _, redundant = module.init_eplb_config(config, layer, moe)
        ranks.append(None if local is None else {"local": local.tolist(), "copies": redundant})
    found.append(ranks)
print(json.dumps(found))
