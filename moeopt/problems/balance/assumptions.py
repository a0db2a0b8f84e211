"""What the edge paper leaves open about its balance conditions, and how it is read here."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="balance_times",
        question="In prefill experts differ by their tokens. Whose times are T_n and T_g?",
        words="T_g as GPU expert computation latency, T_n as NDP-DIMM expert computation latency",
        source="edge GPU-NDP, III-C, Eq. 1-3",
        values={
            "own": "each expert's own: T_n E_n is the time of the experts that remain",
            "mean": "the mean over all active experts stands for every one",
        },
        default="own",
        why="T_n E_n is the units' time for E_n experts; with the mean it is wrong.",
        methods=("balance-equation", "framework", "e-max", "monde"),
    ),
    Assumption(
        name="rounding",
        question="How does the real number E_g become a number of slices?",
        words="transmits only partial expert parameters back to GPU",
        source="edge GPU-NDP, I",
        values={
            "best": "the best of the neighbouring numbers, and of those that take as many from "
            "every unit",
            "nearest": "the nearest number of slices",
            "down": "the next lower number of slices",
        },
        default="best",
        why="Kind to the rule.",
        methods=("balance-equation", "framework"),
    ),
    Assumption(
        name="taken_first",
        question="Which E_g of the active experts does the GPU take?",
        words="",
        source="edge GPU-NDP, III-C and III-D",
        values={
            "hot": "those with the most tokens first",
            "number": "those with the lowest number first",
            "cold": "those with the fewest tokens first",
        },
        default="hot",
        why="Kind to the rule: every transfer takes the same time.",
        methods=("balance-equation", "framework", "e-max", "monde"),
    ),
    Assumption(
        name="ndp_speedup",
        question="How fast do the units compute a prompt's experts?",
        words="Multipliers 64 / DIMM",
        source="edge GPU-NDP, Table I, against Fig. 8 and Fig. 10",
        values={
            "1": "as stated",
            "16": "16 times as fast",
            "64": "64 times: the least that gives the published prefill speedups",
            "256": "256 times: the most",
        },
        default="1",
        why="The table states it; decoding is bound by memory either way.",
        is_setting=True,
        applies={"stage": "prefill"},
    ),
    Assumption(
        name="activations",
        question="Does each of a prompt's activation transfers wait for the link's latency?",
        words="T_a as activation transmission time",
        source="edge GPU-NDP, III-C, Eq. 2",
        values={
            "streamed": "no: T_a is its bytes over the link's bandwidth",
            "single": "yes: T_a has a microsecond besides",
        },
        default="streamed",
        why="Weights have no latency either; with it, balancing could gain nothing.",
        older="single",
        applies={"stage": "prefill"},
    ),
)
