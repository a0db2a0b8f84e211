"""The CP-SAT model that a textbook suggests: when each expert's slices are sent and computed.

The best order does not depend on the counts, so experts follow one another in it, and each has
variables for when its last slice leaves the link and the GPU. It is here to be compared with the
closed form, which has neither.
"""

from .cpsat import Counts


class Model(Counts):
    """Two completion times per expert, in the best order."""

    def ba_c2_gpu_side(self) -> None:
        """Post BA-C2: each expert's slices follow those of the expert before, on link and GPU.

        Of a run of equal slices the GPU ends as late as if only the first or only the last of them
        had to wait for the link.
        """
        totals = self._totals()
        sent = ready = self.model.new_constant(0)
        for row in self.instance.flow_shop_order:
            expert = self.instance.experts[row]
            transfer = 0 if expert.resident else self._steps(self.instance.slice_transfer_ns)
            compute = self._steps(expert.slice_gpu_ns)
            before_sent, before_ready = sent, ready
            sent = self.model.new_int_var(0, self.horizon, f"sent[{row}]")
            ready = self.model.new_int_var(0, self.horizon, f"ready[{row}]")
            work = compute * totals[row]
            self.model.add(sent == before_sent + transfer * totals[row])
            self.model.add(ready >= before_ready + work)
            some = self.model.new_bool_var(f"some[{row}]")
            self.model.add(totals[row] == 0).only_enforce_if(~some)
            self.model.add(ready >= before_sent + transfer + work).only_enforce_if(some)
            self.model.add(ready >= sent + compute).only_enforce_if(some)
        self._post_end(ready)
