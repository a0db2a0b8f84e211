"""What the CPU-GPU collaborative paper leaves open about its cache, and how it is read."""

from moeopt.core.settlements import Settlement

SETTLEMENTS: tuple[Settlement, ...] = (
    Settlement(
        name="ways",
        question="How many ways has each cached layer?",
        words="Through specification of the number of ways per layer M, the number of indexes (N) "
        "in the cache is calculated as N = floor(S / M). ... Configuring the GPU memory as a 4-way "
        "set-associative cache results in 14 indexes",
        source="CPU-GPU collaborative III-B",
        values={
            "twice top-k": "twice the experts of a token: 4 for a model with top-2 routing",
            "top-k": "as many as a token has: its (28, 2)",
            "all layers": "as many as there are with every layer cached",
        },
        default="twice top-k",
        why="the paper leaves M to the user, and 4 ways for top-2 routing is its example; "
        "`best-uniform` tries every M",
        methods=("uniform-ways",),
    ),
    Settlement(
        name="table_times",
        question="Are the times of Table III those of one expert or of a layer's two?",
        words="the computation time for an expert layer in Mixtral 8x7B reaches 44.12 ms",
        source="CPU-GPU collaborative IV-C and Table III, which name experts and expert layers",
        values={
            "layer": "of the two experts of a token in a layer: one expert takes half",
            "expert": "of one expert",
        },
        default="layer",
        why="read as one expert's, the table misses the published tokens per second by a factor of "
        "two, and its transfer would be half as fast as the link",
    ),
    Settlement(
        name="other_ms",
        question="What does a token take besides its experts: attention, norms, the vocabulary?",
        words="",
        source="CPU-GPU collaborative states tokens per second and times of experts, no rest; "
        "Figure 5 and Table III",
        values={
            "20": "20 ms in all layers of Mixtral",
            "13": "13 ms",
            "24": "24 ms",
        },
        default="20",
        why="the published tokens per second imply 13 to 24 ms; 20 fits CPU-only execution, and "
        "the choice moves them by 2 to 3 %",
    ),
)
