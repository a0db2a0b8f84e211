"""The archived KTransformers' matching of injection rules with the modules of a model."""

import importlib.util
import json
import sys
from typing import Any

import torch
import yaml
from stand_ins import stand_in

given = json.loads(sys.argv[1])
stand_in("ktransformers.util.custom_loader", GGUFLoader=None, ModelLoaderFactory=None)
stand_in("ktransformers.util.custom_gguf", translate_name_to_gguf=None)
utils = stand_in("ktransformers.util.utils", set_module=None, load_weights=None)
stand_in("ktransformers.util", utils=utils)
stand_in("transformers", AutoConfig=None)
stand_in("transformers.configuration_utils", PretrainedConfig=object)
spec = importlib.util.spec_from_file_location("optimize", given["source"])
assert spec is not None
assert spec.loader is not None
module: Any = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
model = torch.nn.Module()
for name in given["modules"]:
    place = model
    for part in name.split("."):
        if part not in place._modules:
            place.add_module(part, torch.nn.Module())
        place = place._modules[part]  # type: ignore[assignment]
found: dict[str, Any] = {}
module.gen_optimize_config(model, found, yaml.safe_load(given["rules"]))
print(json.dumps({name: [one["class"], one["kwargs"]] for name, one in found.items()}))
