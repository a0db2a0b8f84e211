"""What the papers leave open about their systems; a decision's own stand at its problem."""

from moeopt.core.assumptions import Assumption

ASSUMPTIONS = (
    Assumption(
        name="benefit_reading",
        question="What is the benefit that migration tasks are ranked by?",
        words="ranks all feasible migration tasks by their predicted benefit and greedily executes "
        "them in priority order until their cumulative estimated time fills this window budget",
        source="TriMoE 4.3",
        values={
            "makespan": "how much the refined makespan of the forecast falls",
            "cheapest path": "how much the expert's own cheapest path falls",
        },
        default="makespan",
        why="By its cheapest path nearly every expert is better striped, and after some steps none "
        "is left for the units: the kinder reading is the one that looks at all devices.",
        methods=("trimoe",),
    ),
    Assumption(
        name="move_links",
        question="Which links does a move between DIMMs keep busy, and for how long?",
        words="parallel inter-dimm transfer capability ... the ~ 0.63 ms cost of migrating up to "
        "four experts",
        source="TriMoE 5.5",
        values={
            "both ends": "those of both its DIMMs, for the bytes of an expert",
            "one matrix a link": "each of an expert's three matrices goes over a link of its own",
        },
        default="both ends",
        why="A DIMM has one link, and what leaves it goes over that.",
        methods=("trimoe",),
    ),
    Assumption(
        name="move_reads",
        question="Do migrations keep the DIMMs busy that they read and write?",
        words="the overall online migration overhead measured remains limited to below 3.3%",
        source="TriMoE 5.5",
        values={
            "no": "no: they hide in the window, in which nothing else reads experts",
            "yes": "yes, both DIMMs for a read of the expert: what comes later waits",
        },
        default="no",
        why="The paper hides migrations in the window of attention and shared experts.",
        methods=("trimoe",),
    ),
    Assumption(
        name="hot_count",
        question="From which loads does MoNDE know how many experts to upload?",
        words="",
        source="MoNDE; TriMoE 5.1.2",
        values={
            "last step": "from those of the layer's last step",
            "this step": "from those of this step, as if they had been known before",
        },
        default="last step",
        why="Loads are known only when uploads would have to begin.",
        methods=("monde",),
    ),
    Assumption(
        name="deferral",
        question="Are experts deferred in batches?",
        words="",
        source="KTransformers 4.2",
        values={
            "single requests": "with one request alone",
            "all batches": "each token defers its own experts; one that is needed now by some and "
            "later by others is read twice",
        },
        default="single requests",
        why="The paper measures one request, and the second reads cost more than deferral gains.",
        methods=("ktransformers",),
    ),
)
