"""The configuration of TensorRT-LLM's load balancer of experts, with the copies it starts from.

YAML with ``num_slots``, ``layer_updates_per_iter`` (0: the map stays as it is) and
``initial_global_assignments``: by the model's number of each layer with experts, which expert each
slot holds, slots numbered over the devices.
"""

from moeopt.errors import InputError
from moeopt.exporters.copies import rows_of_yaml
from moeopt.exporters.exported import Exported, Job
from moeopt.exporters.slots import EP_SIZE, ONTO, REDUNDANT, all_on_gpus, slot_map
from moeopt.exporters.target import Target


def export(job: Job) -> Exported:
    """Return the configuration.

    Raises
    ------
    InputError
        If the number of devices is not given.
    """
    if job.options["ep_size"] is None and job.instance.problem == "placement":
        raise InputError("--ep-size: is missing: over how many devices experts are spread")
    found = slot_map(job, rows_of_yaml)
    lines = [f"num_slots: {len(found.rows[0])}", "layer_updates_per_iter: 0"]
    lines.append("initial_global_assignments:")
    lines += [f"  {layer}: {row}" for layer, row in zip(found.hidden, found.rows, strict=True)]
    payload = ("\n".join(lines) + "\n").encode()
    return Exported(payload, None, found.notes, warnings=all_on_gpus("TensorRT-LLM", found))


TARGETS = (
    Target(
        "tensorrt-llm",
        "TensorRT-LLM: configuration of its load balancer of experts",
        ("placement", "replication"),
        ".yaml",
        export,
        holds="which experts, and which copies, each device has in each layer",
        loses="which experts are off the GPU: it keeps all of them on GPUs",
        options=(EP_SIZE, REDUNDANT, ONTO),
    ),
)
