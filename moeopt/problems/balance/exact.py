"""The problem's own exact methods, beside those that every problem has."""

from moeopt.problems.search import ExactMethod, ExactModel

EXACT: dict[str, ExactMethod | ExactModel] = {
    "dp": ExactMethod("dynamic_program", then="cp-sat-closed-form"),
    "cp-sat-closed-form": ExactModel("cpsat_closed_form", "cp-sat"),
    "cp-sat-completion-times": ExactModel("cpsat_completion_times", "cp-sat"),
}
"""Method name -> the module that has it."""
