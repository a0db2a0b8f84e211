"""Griffe extension: in ``instance, solution`` of a docstring each name keeps its own type.

Griffe gives all names of such a line the first one's annotation and default.
"""

from typing import Any

from griffe import DocstringSectionParameters, Extension, Function


class OwnAnnotations(Extension):
    """Takes annotations and defaults of documented parameters from the signature."""

    def on_function(self, *, func: Function, **kwargs: Any) -> None:
        """Correct one function's table of parameters."""
        if func.docstring is None or "Parameters\n" not in func.docstring.value:
            return
        for section in func.docstring.parsed:
            if isinstance(section, DocstringSectionParameters):
                for documented in section.value:
                    if documented.name in func.parameters:
                        parameter = func.parameters[documented.name]
                        documented.annotation = parameter.annotation
                        documented.value = parameter.default
