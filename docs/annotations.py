"""Griffe extension: what documented parameters and fields are, where Griffe guesses wrong."""

from typing import Any

from griffe import Attribute, DocstringSectionParameters, Extension, Function


class Annotations(Extension):
    """Takes the types of documented parameters from the signature, and fields by annotation."""

    def on_function(self, *, func: Function, **kwargs: Any) -> None:
        """Give each name of a line like ``instance, solution`` its own type and default.

        Griffe gives all of them the first one's.
        """
        if func.docstring is None or "Parameters\n" not in func.docstring.value:
            return
        for section in func.docstring.parsed:
            if isinstance(section, DocstringSectionParameters):
                for documented in section.value:
                    if documented.name in func.parameters:
                        parameter = func.parameters[documented.name]
                        documented.annotation = parameter.annotation
                        documented.value = parameter.default

    def on_attribute_instance(self, *, attr: Attribute, **kwargs: Any) -> None:
        """Mark what a class assigns without annotation (``__str__ = __repr__``) as no field.

        griffe-pydantic takes it for one.
        """
        if attr.annotation is None and "class-attribute" in attr.labels:
            attr.labels.discard("instance-attribute")
