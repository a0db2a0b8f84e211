"""One move engine for layouts with their schedules, and what is done with it.

`state` holds a layout, the schedules and the loads that follow; `moves` gives one expert another
layout, or exchanges two experts', and lets whoever is moved run where it suits best in every
scenario. `descent` is the heuristic ``local-search``; `copies` anneals where an expert may lie in
several places. The formulas stand in `formulations/layout/spec.md`, section
"Local search".
"""
