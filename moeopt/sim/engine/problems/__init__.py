"""Executing solutions of problems on the engine: one module per problem, named after it.

A module defines ``execute(instance, solution) -> Executed``. It builds tasks and resources and adds
nothing up itself, so that it is a second, independent reading of what the checker computes.
"""
