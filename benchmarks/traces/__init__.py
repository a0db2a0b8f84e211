"""Traces of published data sets, workloads fitted to traces, and a recorder; for a checkout.

``python -m benchmarks.traces convert FORMAT IN OUT`` writes the npz form that commands take with
``--trace``, ``python -m benchmarks.traces fit FILE --out law.json`` a workload for ``--workload``.
"""
