"""Names of room `exporters` that tests use beyond the public ones."""

from benchmarks.rooms.lazily import lazily

__getattr__, __dir__ = lazily(
    {
        "moeopt.exporters.current": ("read_copies",),
        "moeopt.exporters.expert_maps": ("expert_map",),
        "moeopt.exporters.exported": ("Exported", "Job", "Loss", "OptionValue"),
        "moeopt.exporters.slots": ("SlotMap", "by_load", "full_slots", "slots_of"),
        "moeopt.exporters.target": ("Target", "classes_of"),
        "moeopt.exporters.targets": ("GROUP as EXPORTERS", "all_targets", "targets_of"),
        "moeopt.exporters.targets.exact_model": ("CONSTANT", "read_answer", "read_sol"),
        "moeopt.exporters.targets.ktransformers": ("torch_file",),
        "moeopt.exporters.targets.llama_cpp as llama_cpp": (
            "read_split_flags",
            "shared_by_ik",
            "split_flags",
        ),
    }
)
