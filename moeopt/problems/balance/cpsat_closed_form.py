"""The CP-SAT model with the flow shop in closed form: no intervals, no order.

All transfers are equal, so Johnson's makespan is the largest of three sums: the GPU's work; one
transfer and the work that needed transfers; all transfers and the shortest computation among the
slices that were transferred. The proof stands in `formulations/balance/spec.md`.
"""

from .cpsat import Counts


class Model(Counts):
    """One literal per expert that is not resident: some of its slices are pulled over the link."""

    def ba_c2_gpu_side(self) -> None:
        """Post BA-C2: the three sums."""
        totals = self._totals()
        experts = self.instance.experts
        transfer = self._steps(self.instance.slice_transfer_ns)
        compute = [self._steps(expert.slice_gpu_ns) for expert in experts]
        end = self.model.new_int_var(0, self.horizon, "gpu_end")
        away = [row for row, expert in enumerate(experts) if not expert.resident]
        self.model.add(end >= sum(c * total for c, total in zip(compute, totals, strict=True)))
        if not away:
            self._post_end(end)
            return
        needed = sum(compute[row] * totals[row] for row in away)
        sent = transfer * sum(totals[row] for row in away)
        some = self.model.new_bool_var("some")
        self.model.add(sum(totals[row] for row in away) == 0).only_enforce_if(~some)
        self.model.add(end >= transfer + needed).only_enforce_if(some)
        last = {row: self.model.new_bool_var(f"last[{row}]") for row in away}
        for row, chosen in last.items():
            self.model.add(totals[row] >= 1).only_enforce_if(chosen)
            self.model.add(end >= sent + compute[row]).only_enforce_if(chosen)
        self.model.add(sum(last.values()) == some)
        self._post_end(end)
