"""An oracle for BA-C2: an interval for every transfer and computation, no word of Johnson's rule.

Too large for layers of a real model: 8,000 intervals take CP-SAT more than 20 GB.
"""

from itertools import pairwise

from ortools.sat.python import cp_model
from ortools.sat.python.cp_model import IntVar

from tests.rooms.balance import Model


class Intervals(Model):
    """Optional intervals for each slice on link and GPU; a slice is there if it is taken."""

    def ba_c2_gpu_side(self) -> None:
        """Post BA-C2: link and GPU serve one slice at a time, the GPU after the link."""
        on_link: list[cp_model.IntervalVar] = []
        on_gpu: list[cp_model.IntervalVar] = []
        end = self.model.new_int_var(0, self.horizon, "gpu_end")
        for row, total in enumerate(self._totals()):
            sent, started = self._slices(row, total, on_link, on_gpu)
            compute = self._steps(self.instance.experts[row].slice_gpu_ns)
            for start, taken in started:
                self.model.add(end >= start + compute).only_enforce_if(taken)
            # Slices of one expert are alike: fix their order.
            for times in (sent, started):
                for (earlier, _), (later, taken) in pairwise(times):
                    self.model.add(earlier <= later).only_enforce_if(taken)
        self.model.add_no_overlap(on_link)
        self.model.add_no_overlap(on_gpu)
        overhead = self._steps(self.instance.gpu_overhead_ns) * self._remains("gpu")
        self.model.add(end + overhead <= self.makespan)

    def _slices(
        self,
        row: int,
        total: IntVar,
        on_link: list[cp_model.IntervalVar],
        on_gpu: list[cp_model.IntervalVar],
    ) -> tuple[list[tuple[IntVar, IntVar]], list[tuple[IntVar, IntVar]]]:
        """Make the intervals of an expert's slices; the first `total` of them are there.

        Returns when each is sent and when its computation starts, each with the slice's literal.
        """
        expert = self.instance.experts[row]
        transfer = 0 if expert.resident else self._steps(self.instance.slice_transfer_ns)
        compute = self._steps(expert.slice_gpu_ns)
        sent, started = [], []
        for number in range(self.instance.slices):
            name = f"[{row},{number}]"
            taken = self.model.new_bool_var(f"taken{name}")
            send = self.model.new_int_var(0, self.horizon, f"send{name}")
            start = self.model.new_int_var(0, self.horizon, f"start{name}")
            optional = self.model.new_optional_fixed_size_interval_var
            on_link.append(optional(send, transfer, taken, f"transfer{name}"))
            on_gpu.append(optional(start, compute, taken, f"compute{name}"))
            self.model.add(start >= send + transfer).only_enforce_if(taken)
            sent.append((send, taken))
            started.append((start, taken))
        for (_, earlier), (_, later) in pairwise(sent):
            self.model.add_implication(later, earlier)
        self.model.add(sum(taken for _, taken in sent) == total)
        return sent, started
