"""What the CPU-GPU collaborative paper leaves open about its cache, and how it is read."""

from moeopt.problems.settlements import Settlement

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
)
