"""What the edge paper leaves open about its balance conditions, and how it is read here."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="balance_times",
        question="Active experts differ in prefill, by their tokens. Whose times are T_n and T_g?",
        words="We also define T_g as GPU expert computation latency, T_n as NDP-DIMM expert "
        "computation latency after tensor parallelism",
        source="edge GPU-NDP, III-C, Eq. 1-3",
        values={
            "own": "each expert's own: T_n E_n is the time of the experts that remain",
            "mean": "the mean over all active experts stands for every one",
        },
        default="own",
        why="T_n E_n is the units' time for E_n experts; by words either reading will do, and with "
        "the mean the equation is wrong about the very experts that it divides",
        methods=("balance-equation", "framework", "e-max", "monde"),
    ),
    Assumption(
        name="rounding",
        question="How does the real number E_g become a number of slices?",
        words="transmits only partial expert parameters back to GPU",
        source="edge GPU-NDP, I",
        values={
            "best": "the best of the neighbouring numbers of slices, and of those that take as "
            "many from every unit",
            "nearest": "the nearest number of slices",
            "down": "the next lower number of slices",
        },
        default="best",
        why="the paper does not say; kind to the rule. With coarse slices all units must give up "
        "one before the last of them is done sooner",
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
        why="kind to the rule: a transfer takes the same time for every expert, and spares the "
        "units most with the hottest",
        methods=("balance-equation", "framework", "e-max", "monde"),
    ),
    Assumption(
        name="ndp_speedup",
        question="How fast do the units compute a prompt's experts?",
        words="Multipliers 64 / DIMM",
        source="edge GPU-NDP, Table I, against Fig. 8 and Fig. 10",
        values={
            "1": "as stated: enough for one token at the memory's rate, and 100 times too slow for "
            "the published prefill",
            "16": "16 times as fast",
            "64": "64 times: the least at which the published prefill speedups come out",
            "256": "256 times: the most",
        },
        default="1",
        why="the table states it; a decoded token is bound by memory either way. Prefill is shown "
        "at all of them",
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
            "single": "yes: T_a has a microsecond besides, which is nearly all of it",
        },
        default="streamed",
        why="weights follow one another without latency as well; with it, (S - 1) T_a N alone is "
        "longer than the units' work at the published rates, and balancing could gain nothing",
        older="single",
        applies={"stage": "prefill"},
    ),
)
