"""vllm-plugin-das' own reading of a static plan; prints its rows."""

import importlib.util
import json
import sys

given = json.loads(sys.argv[1])
spec = importlib.util.spec_from_file_location("static_eplb", given["module"])
assert spec is not None
assert spec.loader is not None
module = importlib.util.module_from_spec(spec)
sys.modules["static_eplb"] = module
spec.loader.exec_module(module)
plan = module.load_static_eplb_plan(
    given["map"],
    model_key=given["key"],
    expected_shape=tuple(given["shape"]),
    num_logical_experts=given["experts"],
    num_redundant_experts=given["copies"],
)
print(json.dumps(plan.physical_to_logical_map.tolist()))
