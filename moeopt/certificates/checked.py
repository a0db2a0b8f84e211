"""Certificates read from files, and the bounds that they prove of an instance."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from moeopt.certificates.certificate import Model, RefusedError, read, verify
from moeopt.certificates.model import form_of, neutral_model
from moeopt.core.envelope import InstanceEnvelope
from moeopt.core.errors import InputError
from moeopt.core.objective import Objective
from moeopt.core.wording import shortened
from moeopt.problems.registry import get_problem


def read_certificate(file: Path) -> dict[str, Any]:
    """Return a certificate's JSON object, of which only the format is checked.

    Raises
    ------
    InputError
        If the file cannot be read or is no certificate.
    """
    try:
        data = read(file)
    except RefusedError as error:
        raise InputError(str(error)) from None
    if data.get("format") != "moeopt-certificate":
        raise InputError("format: must be moeopt-certificate")
    return data


def proven_bound(instance: InstanceEnvelope, certificate: Mapping[str, Any]) -> Objective:
    """Return the bound that a certificate proves of an instance.

    The model is made anew from the instance; what the certificate says is checked by `verify`.

    Raises
    ------
    InputError
        If it is about another instance or model, or does not prove its bound.
    """
    if (named := str(certificate.get("instance"))) != instance.name:
        raise InputError(f"is about {shortened(named)!r}, not about {instance.name!r}")
    model = neutral_model(instance, form_of(certificate)).data
    try:
        steps = verify(Model(model), dict(certificate))
    except RefusedError as error:
        raise InputError(str(error)) from None
    return get_problem(instance.problem).packing(instance).unpack(steps)
