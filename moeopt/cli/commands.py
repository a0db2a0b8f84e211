"""Commands of ``moeopt``: where each is, what its help says, and an example of each.

Help of all commands needs no import of theirs: a command's module is imported when it is used,
so that ``moeopt --help`` answers at once.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """A command.

    Attributes
    ----------
    name
        Words of the command line that name it.
    place
        ``module:function`` in `moeopt.cli`.
    heading
        Under which it stands in help.
    about
        Help: the first sentence says what the command is for.
    example
        A command line.
    """

    name: str
    place: str
    heading: str
    about: str
    example: str


HEADINGS = (
    *("Decide one instance", "Compare methods on many", "Decide for future loads"),
    *("Make instances and traces", "Describe a machine", "Predict, plan and run"),
    *("Prove a bound", "Look up"),
)
"""Headings of help, in this order."""

DECIDE, COMPARE, FUTURE, MAKE, MACHINE, RUN, PROVE, LOOK = HEADINGS

GROUPS = {
    "trace": (MAKE, "Convert, deduplicate and describe routing traces."),
    "machine": (MACHINE, "Describe the machine at hand, look at a machine, change one."),
    "model": (MACHINE, "Look at a model."),
    "certificate": (PROVE, "Make and check certificates: proofs of lower bounds in integers."),
}
"""Commands that have commands of their own."""

COMMANDS = (
    Command(
        *("solve", "solve:solve_command", DECIDE),
        "Solve instances by an exact method or a heuristic.\n\n"
        "Exit codes: 0 solved, 2 bad input, 3 infeasible, 4 nothing found, 5 a bug.",
        "moeopt solve instance.json --method trimoe --out solution.json",
    ),
    Command(
        *("check", "check:check_command", DECIDE),
        "Check a solution independently of any solver; exit code 2 if it violates a constraint.\n\n"
        "Where the instance's file stands in a library, the output compares the solution with the"
        " best known one. A .sol file is what HiGHS, SCIP, CBC or Gurobi write for the model of"
        " `moeopt export --to lp` or `--to mps`.",
        "moeopt check instance.json solution.json",
    ),
    Command(
        *("explain", "explain:explain_command", DECIDE),
        "Explain what limits a solution, which changes help, and what each constraint costs.\n\n"
        "Of a solution: the device of the critical path and the best single changes. Of the"
        " instance: the price of each constraint, which is how much the optimum falls without it."
        " Of an infeasible instance: the constraints in conflict (exit code 3).",
        "moeopt explain instance.json solution.json",
    ),
    Command(
        *("gantt", "gantt:gantt_command", DECIDE),
        "Draw the schedules of solutions on one time axis, with critical paths.",
        "moeopt gantt instance.json solution.json",
    ),
    Command(
        *("pareto", "pareto:pareto_command", DECIDE),
        "List every undominated objective of an instance, exactly.\n\n"
        "With a tolerance, the last one listed costs least.",
        "moeopt pareto layered.json --tolerance 0.05",
    ),
    Command(
        *("gap", "gap:gap_command", COMPARE),
        "Measure how far methods are above the optimum, per instance and per family.\n\n"
        "With --store and no paths, the tables are of what the store holds. A solve that fails,"
        " such as one by a custom heuristic, gets a line on stderr and a row; the others go on, and"
        " the exit code is that of the gravest failure (2 for a heuristic), 0 if there is none.",
        "moeopt gap instance.json --methods greedy,trimoe",
    ),
    Command(
        *("sensitivity", "sensitivity:sensitivity_command", COMPARE),
        "Measure how far heuristics are above the optimum under each assumption.\n\n"
        "An assumption settles what a paper leaves open (`moeopt list assumptions`). One changes at"
        " a time, the others keep their defaults; with --points all change at once.",
        "moeopt sensitivity instance.json --methods greedy",
    ),
    Command(
        *("report", "report:report_command", COMPARE),
        "Write a page about the results in a store, which sorts and filters, and a CSV.",
        "moeopt report study.sqlite --out report",
    ),
    Command(
        *("warm", "solve:warm_command", COMPARE),
        "Compile the kernels of all problems now, so that no later solve waits for one.\n\n"
        "They are kept in the user's cache folder, or in $MOEOPT_CACHE_DIR; a second call ends at"
        " once.",
        "moeopt warm --jobs 1",
    ),
    Command(
        *("holdout", "holdout:holdout_command", FUTURE),
        "Measure what decisions on observed (train) loads cost on later (test) loads.\n\n"
        "Exit code 2 if the later files are no later loads of the same, or no method decided"
        " anything.",
        "moeopt holdout train.json test.json --methods frequency",
    ),
    Command(
        *("generate", "generate:app", MAKE),
        "Make instances of a problem from a machine, a model and a trace.\n\n"
        "Several layers or batches (--layer 1,5-7 or all, --batch 32,64) make an instance of each"
        " combination in the folder of --out. A file that a folder has already is not replaced:"
        " nothing is written then.",
        "moeopt generate tri_domain --machine trimoe --model deepseek-v2-lite"
        " --workload trimoe-skew --out made.json",
    ),
    Command(
        *("trace info", "trace:info_command", MAKE),
        "Describe a trace: size, repeats, skew, reuse, similarities and cache hit rates.\n\n"
        "A file that holds counts only has skew and shares, nothing that needs the order of"
        " tokens.",
        "moeopt trace info trace.npz",
    ),
    Command(
        *("trace convert", "trace:convert_command", MAKE),
        "Convert a trace of any known format to npz.",
        "moeopt trace convert trace.npz --out converted.npz",
    ),
    Command(
        *("trace dedupe", "trace:dedupe_command", MAKE),
        "Remove the second and later occurrences of runs of tokens, so that test loads are new.",
        "moeopt trace dedupe trace.npz --out once.npz",
    ),
    Command(
        *("machine detect", "machine:detect_command", MACHINE),
        "Describe this machine: what the system says, the vendor's data, and measurements.",
        "moeopt machine detect --out mine.json",
    ),
    Command(
        *("machine show", "machine:show_command", MACHINE),
        "Print every field of a machine with its unit and source.",
        "moeopt machine show rtx4090+ryzen-am5",
    ),
    Command(
        *("machine set", "machine:set_command", MACHINE),
        "Change fields of a machine; a number makes a flat curve, null takes a field out.",
        "moeopt machine set trimoe dram.capacity_gib=96GiB --out mine.json",
    ),
    Command(
        *("machine read", "machine:read_command", MACHINE),
        "Read what tools printed about a machine: facts, and the machine that they describe.\n\n"
        "Of lscpu, /proc/cpuinfo and meminfo, dmidecode -t memory, numactl -H, nvidia-smi (the"
        " table, -L, -q or --query-gpu), system_profiler SPHardwareDataType, STREAM, Intel MLC and"
        " llama.cpp's log; several may stand in one file.",
        "moeopt machine read lscpu.txt --out mine.json",
    ),
    Command(
        *("machine fields", "machine:fields_command", MACHINE),
        "Print every GPU and host that has a name, and what each field of a machine file means.",
        "moeopt machine fields",
    ),
    Command(
        *("model show", "model:show_command", MACHINE),
        "Print what a model is taken for: parameters, layers, experts, bytes of weights and"
        " cache.\n\n"
        "Of a preset, a config.json (with hf_quant_config.json beside it) or a GGUF file."
        " Keys of a config.json about sizes that are not read are named in warnings.",
        "moeopt model show qwen3-30b-a3b",
    ),
    Command(
        *("calibrate", "machine:calibrate_command", MACHINE),
        "Fit the overheads of runtimes to two or more measured speeds and print what is left over.",
        "moeopt calibrate --machine rtx4090+ryzen-am5 --points points.csv --out mine.json",
    ),
    Command(
        *("profile", "machine:profile_command", MACHINE),
        "Time an expert's three matrix products with torch and write the machine with the table.",
        "moeopt profile --machine trimoe --model deepseek-v2-lite --tokens 1,64 --out mine.json",
    ),
    Command(
        *("compare", "compare:compare_command", RUN),
        "Run the published systems on one machine, model and trace, beside their optimum.\n\n"
        "A row for each system: prefill, decode latency, tokens per second and busy shares, and"
        " what its decisions would give at their optimum, with the same information and by an"
        " oracle. A system that needs a unit which the machine lacks says so.",
        "moeopt compare --machine trimoe --model deepseek-v2-lite --workload trimoe-skew"
        " --batch 8 --output 4 --layers 2",
    ),
    Command(
        *("predict", "predict:predict_command", RUN),
        "Predict a runtime's decode speed with an 80 % interval and the bottleneck.\n\n"
        "Exit code 3 if the model does not fit: with what is missing and the nearest quantisation"
        " that fits.",
        "moeopt predict --machine rtx4090+ryzen-am5 --model qwen3-30b-a3b --bits Q4_K_M",
    ),
    Command(
        *("plan", "plan:plan_command", RUN),
        "Plan where a model lies on a machine: speeds at several depths, and the command line.\n\n"
        "With a machine and a model alone, the plan says which layers' experts the CPU computes,"
        " or, on several GPUs or memory nodes, which layers' attention and experts lie where. With"
        " a trace, counts or a workload it is about single experts, cache ways, deferral and bits,"
        " decided on one part of the trace and executed on the test part, next to what runtimes do"
        " by default.\n\n"
        "With --ep-size and --counts, and no machine, it is about the experts and copies of each"
        " rank, in all layers. Multi-token prediction and draft models are not planned. Rare"
        " options (fronts, which steps, single widths) stand in docs/commands.md.",
        "moeopt plan --machine rtx4090+ryzen-am5 --model qwen3-30b-a3b --bits Q4_K_M",
    ),
    Command(
        *("export", "export:export_command", RUN),
        "Write a plan in a runtime's format and print the flags that go with it.\n\n"
        "What the format costs, if the plan had to be changed for it, and why the runtime would"
        " ignore or change it, is printed on stderr. With --out, notes are written beside the file,"
        " and a script that starts the runtime where there is one.",
        "moeopt export instance.json --to lp --out model.lp",
    ),
    Command(
        *("simulate", "simulate:simulate_command", RUN),
        "Execute decode steps under a plan, or a problem's solution, in the event engine.\n\n"
        "Exit code 5 if engine and checker disagree. A solution of bitwidth becomes a plan where a"
        " machine, a model and loads are given as well.",
        "moeopt simulate --instance instance.json --solution solution.json",
    ),
    Command(
        *("certificate make", "certificate:make_command", PROVE),
        "Make a certificate of a lower bound by linear relaxations and branching.",
        "moeopt certificate make instance.json --out bound.json",
    ),
    Command(
        *("certificate check", "certificate:check_command", PROVE),
        "Check in integers that a certificate proves a lower bound; its source does not matter.\n\n"
        "Exit code 2 if it proves nothing of this instance. Where the instance's file stands in a"
        " library, exit code 5 if it proves more than the best known solution costs.",
        "moeopt certificate check instance.json bound.json",
    ),
    Command(
        *("certificate model", "certificate:model_command", PROVE),
        "Write the model in integers which certificates of an instance are checked against.\n\n"
        "Without --for it is the exact one. `python certificate.py MODEL CERTIFICATE` checks a"
        " certificate without any package installed.",
        "moeopt certificate model instance.json --out model.json",
    ),
    Command(
        *("list", "listing:list_command", LOOK),
        "List what there is: problems, methods, assumptions, machines, models and more.\n\n"
        "`--machine` of other commands takes one of machines, GPU+HOST, or HOST alone.",
        "moeopt list methods",
    ),
)
"""All commands, in the order of help."""
