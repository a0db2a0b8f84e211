"""Griffe extension: what documented parameters and fields are, where Griffe guesses wrong."""

from collections.abc import Iterator
from typing import Any

from griffe import (
    Attribute,
    Class,
    DocstringSectionParameters,
    Extension,
    Function,
    Module,
    Parameter,
    ParameterKind,
    Parameters,
)


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

    def on_package(self, *, pkg: Module, **kwargs: Any) -> None:
        """Give models a signature of their fields: pydantic's own has one parameter, ``data``."""
        for module in modules(pkg):
            for model in module.classes.values():
                if "pydantic-model" in model.labels and "__init__" not in model.members:
                    model["__init__"] = Function("__init__", parameters=Parameters(*fields(model)))


def modules(of: Module) -> Iterator[Module]:
    """Yield a module and all below it."""
    yield of
    for module in of.modules.values():
        if not module.is_alias:
            yield from modules(module)


def fields(model: Class) -> Iterator[Parameter]:
    """Yield a model's fields, also those that it inherits, as parameters."""
    for name, member in model.all_members.items():
        if "pydantic-field" in member.labels:
            kind = ParameterKind.keyword_only
            yield Parameter(name, annotation=member.annotation, kind=kind, default=member.value)
