"""Compiled: what moving one expert of a layer, or exchanging two, changes the layer's cost by."""

from moeopt.numeric.compiled import compiled
from moeopt.problems.placement.layer_steps import Flags, Ints


@compiled
def flips(
    weight: Ints,
    start: Ints,
    expert: Ints,
    gpu_ns: Ints,
    offload_ns: Ints,
    fixed_ns: int,
    held: Flags,
    change: Ints,
    swap: Ints,
) -> None:
    """Compute what the layer's cost changes by if experts are moved; both outputs begin as 0.

    Parameters
    ----------
    change
        Output, shape (experts,): one expert moved to the other side.
    swap
        Output, shape (experts, experts): what [a, b] with a held and b not, both moved, changes by
        beyond the sum of the two single moves.
    """
    for row in range(len(weight)):
        first, end = start[row], start[row + 1]
        gpu, off, count = 0, 0, 0
        for i in range(first, end):
            if held[expert[i]]:
                gpu += gpu_ns[i]
            else:
                off += offload_ns[i]
                count += 1
        now = max(gpu, off + (fixed_ns if count else 0))
        for i in range(first, end):
            a = expert[i]
            if held[a]:
                moved = max(gpu - gpu_ns[i], off + offload_ns[i] + fixed_ns)
                change[a] += weight[row] * (moved - now)
                for j in range(first, end):
                    b = expert[j]
                    if not held[b]:
                        added = max(
                            gpu + gpu_ns[j], off - offload_ns[j] + (fixed_ns if count > 1 else 0)
                        )
                        both = max(
                            gpu - gpu_ns[i] + gpu_ns[j],
                            off + offload_ns[i] - offload_ns[j] + fixed_ns,
                        )
                        swap[a, b] += weight[row] * (both - moved - added + now)
            else:
                added = max(gpu + gpu_ns[i], off - offload_ns[i] + (fixed_ns if count > 1 else 0))
                change[a] += weight[row] * (added - now)
