"""SGLang's loader of `--init-expert-location` on a map; prints the experts of its slots."""

import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stand_ins import stand_in

given = json.loads(sys.argv[1])
parallel = SimpleNamespace(ep_size=given["ep_size"], elastic_ep_initial_size=None, nnodes=1)
moe = SimpleNamespace(
    init_expert_location=given["map"],
    ep_num_redundant_experts=given["redundant"],
    ep_dispatch_algorithm=None,
    ep_join_mode=None,
    moe_a2a_backend="none",
)
stand_in(
    "sglang.srt.runtime_context",
    get_device=lambda: SimpleNamespace(device="cpu"),
    get_exec=lambda: SimpleNamespace(moe=moe),
    get_parallel=lambda: parallel,
    get_resources=lambda: None,
)
stand_in("sglang.srt.elastic_ep.elastic_ep", elastic_expanded_world_enabled=lambda: False)
path = Path(given["package"]) / "sglang" / "srt" / "eplb" / "expert_location.py"
spec = importlib.util.spec_from_file_location("expert_location", path)
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
sys.modules["expert_location"] = module
spec.loader.exec_module(module)


class Honouring:
    """A model's class that takes a map."""

    @staticmethod
    def get_model_config_for_expert_location(config: Any) -> Any:
        """Return the layers, those without experts included, and the experts."""
        return module.ModelConfigForExpertLocation(
            num_layers=given["layers"], num_logical_experts=given["experts"]
        )


class Other:
    """A model's class that does not."""


model_class = Honouring if given["honours"] else Other
stand_in("sglang.srt.model_loader", get_model_architecture=lambda config: (model_class, ""))
found = module.compute_initial_expert_location_metadata(SimpleNamespace(hf_config=None), 0)
print(json.dumps(None if found is None else found.physical_to_logical_map.tolist()))
