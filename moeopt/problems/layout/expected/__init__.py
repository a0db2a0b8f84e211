"""The expected makespan of a layout over sampled futures, and its minimisation, compiled.

`recourse` schedules one future on a layout in less than a microsecond; `sample` holds the futures
and a layout's loads in each of them; `annealing` moves experts, with futures as common random
numbers, and stops looking at them once a move is clearly bad. `formulations/layout/spec.md`,
section "Decisions for later windows", says how method ``robust`` uses them.
"""
