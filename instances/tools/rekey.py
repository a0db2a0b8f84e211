"""Certificates that stay when instances, models or their order change.

    python -m instances.tools rekey [--problem P ...] [--sample 0.1] [--old TREE] [--write]

Builds today's model of each certificate of the library and says what becomes of it:

kept      the model is the one that it is stamped with
stamped   the model is the same but for its name, hashes, constraint IDs, and the order of variables
          and rows: the numbers in the certificate are changed and it is stamped with the new hash
made      the model is another one, and a certificate of it was made within ``--seconds``
lost      none was made: its file stays as it is, and the command ends with 1

What is stamped or made has been checked by ``certificate.py``. Certificates do not hold their
models, so TREE, a checkout of the code that they were made with, is asked for the old ones; without
it nothing can be stamped. ``--write`` replaces the files; without it nothing is written.
"""

import gzip
import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated, Any

from cyclopts import Parameter

from benchmarks.rooms.certificates import (
    Model,
    RefusedError,
    form_of,
    forms,
    neutral_model,
    proven,
    read,
    verify,
)
from benchmarks.rooms.core import InstanceEnvelope, TimeLimitError, solving_clock, told
from instances.tools.entries import LIBRARY, Where, entries_of, instance_of, problem_folders
from instances.tools.isomorphism import Data, Renumbering, renumbering
from moeopt import InputError, save

OF_OLD = """
import gzip, json, sys
try:
    from moeopt.certificates.model import neutral_model
except ImportError:
    from moeopt.library.model import neutral_model
from moeopt.problems.files import load
for number, (file, form) in enumerate(json.load(sys.stdin)):
    try:
        data = neutral_model(load(file), form).data
    except Exception as error:
        print(f"{file}: {error}", file=sys.stderr)
        continue
    with gzip.open(f"{sys.argv[1]}/{number}.json.gz", "wt", compresslevel=1) as out:
        json.dump(data, out)
"""
"""Writes the models of (instance file, form) that stdin names, by the code in PYTHONPATH."""

Proof = dict[str, Any]


class _AnewError(Exception):
    """A certificate that new numbers alone do not say."""


@contextmanager
def old_models(tree: Path, wanted: Sequence[tuple[Path, Any]]) -> Iterator[list[Data | None]]:
    """Write the models of instances and forms as another checkout builds them; yield them."""
    with TemporaryDirectory() as folder:
        subprocess.run(  # noqa: S603 - our own module, of a checkout that was named
            [sys.executable, "-c", OF_OLD, folder],
            input=json.dumps([[str(file.resolve()), form] for file, form in wanted]),
            text=True,
            check=True,
            cwd=tree,
            env=os.environ | {"PYTHONPATH": str(tree.resolve())},
        )
        files = [Path(folder) / f"{number}.json.gz" for number in range(len(wanted))]
        yield [json.loads(gzip.decompress(f.read_bytes())) if f.exists() else None for f in files]


def renumbered(certificate: Proof, old: Data, new: Data, names: Renumbering) -> Proof:
    """Return a certificate of the new model from one of the old, which differ in order alone.

    Raises
    ------
    _AnewError
        If a branch is on the first variables of a row in which the new order has others first.
    """
    before, after = Model(dict(old)), Model(dict(new))
    changed = certificate | {
        "instance": new["instance"],
        "instance_sha256": new["instance_sha256"],
        "model_sha256": after.sha256,
    }
    if "parts" not in certificate:
        rows = dict(enumerate(names.rows))
        return changed | _tree(certificate, before, after, names.variables, rows)
    relaxed = {row for row, _ in certificate["relaxed"]}
    changed["relaxed"] = sorted([names.rows[row], factor] for row, factor in certificate["relaxed"])
    changed["parts"] = []
    for part in certificate["parts"]:
        own = [names.variables[v] for v in part["vars"]]
        of_old = _rows_within(before, set(part["vars"]), relaxed)
        of_new = _rows_within(after, set(own), {names.rows[row] for row in relaxed})
        place = {row: number for number, row in enumerate(of_new)}
        rows = {number: place[names.rows[row]] for number, row in enumerate(of_old)}
        one, other = (model.part(of, []) for model, of in ((before, of_old), (after, of_new)))
        tree = _tree(part, one, other, names.variables, rows)
        changed["parts"].append(part | {"vars": own} | tree)
    return changed


def _rows_within(model: Model, own: set[int], relaxed: set[int]) -> list[int]:
    """Return the rows that a part has, as `certificate` numbers them."""
    return [
        row
        for row, terms in enumerate(model.terms)
        if row not in relaxed and terms and all(v in own for v, _ in terms)
    ]


def _tree(
    proof: Proof, before: Model, after: Model, variables: Sequence[int], rows: Mapping[int, int]
) -> Proof:
    tree: list[Any] = []
    for node in proof["tree"]:
        if isinstance(node, int):
            tree.append(node)
        elif len(node) == 2:
            tree.append([variables[node[0]], node[1]])
        else:
            row, first, most = node
            old = {variables[v] for v in _flags(before, row)[:first]}
            if old != set(_flags(after, rows[row])[:first]):
                raise _AnewError
            tree.append([rows[row], first, most])
    leaves = [[weight, [[rows[row], y] for row, y in pairs]] for weight, pairs in proof["leaves"]]
    return {"tree": tree, "leaves": leaves}


def _flags(model: Model, row: int) -> list[int]:
    """Return the variables of a row of which one may be 1, as `certificate` counts them."""
    terms = model.terms[row]
    return [v for v, c in terms if c == 1 and model.whole[v] and model.lower[v] == 0]


def stamped(certificate: Proof, old: Data, new: Data) -> Proof | None:
    """Return the certificate of a new model that is the old one in another order; None if not."""
    names = None
    if Model(dict(old)).sha256 == certificate.get("model_sha256"):
        names = renumbering(old, new)
    if names is None:
        return None
    try:
        changed = renumbered(certificate, old, new, names)
        verify(Model(dict(new)), changed)
    except (_AnewError, RefusedError):
        return None
    return changed


def made(instance: InstanceEnvelope, certificate: Proof, seconds: float) -> Proof | None:
    """Return a new certificate of the same bound, by the old one's form or by another."""
    clock = solving_clock()
    end, bound = clock.now() + seconds, certificate["bound"]
    own = form_of(certificate)
    found = proven(instance, bound, end - clock.now(), own)
    if found is None:
        try:
            with told(end, gives_up=True):
                others = [form for form in forms(instance, bound) if form != own]
        except TimeLimitError:
            return None
        for form in others:
            found = found or proven(instance, bound, end - clock.now(), form)
    return found


def rekey_command(
    *,
    problem: Annotated[
        list[str] | None, Parameter(help="Repeatable; by default all problems.")
    ] = None,
    sample: Annotated[float, Parameter(help="Share of the certificates.")] = 1.0,
    old: Annotated[
        Path | None, Parameter(metavar="TREE", help="Checkout of the code that made them.")
    ] = None,
    seconds: Annotated[float, Parameter(metavar="S", help="Limit for making one anew.")] = 60.0,
    write: Annotated[bool, Parameter("--write", help="Replace the files.")] = False,
    library: Where = LIBRARY,
) -> int:
    """Keep the library's certificates when instances, models or their order change.

    Builds today's model of each certificate and says what becomes of it: kept, stamped with new
    numbers and a new hash, made anew, or lost; exit 1 if one is lost. Without --old nothing can be
    stamped, and without --write nothing is written.
    """
    totals: Counter[str] = Counter()
    for folder in problem_folders(library):
        if problem and folder.name not in problem:
            continue
        begin = _cpu_s()
        entries = [entry for entry in entries_of(folder) if "certificate" in entry.fields]
        entries = entries[:: max(1, round(1 / sample))]
        others, counts = [], Counter[str]()
        for entry in entries:
            instance = instance_of(entry)
            certificate = read(folder / entry.fields["certificate"])
            try:
                new = neutral_model(instance, form_of(certificate)).data
            except InputError:
                new = None  # its form is one of the past
            if new is not None and Model(new).sha256 == certificate["model_sha256"]:
                counts["kept"] += 1
            else:
                others.append((entry, certificate, new is not None))
        wanted = [(folder / entry.key, form_of(certificate)) for entry, certificate, _ in others]
        with _old(old, wanted) as olds:
            for (entry, certificate, known), before in zip(others, olds, strict=True):
                instance, found, word = instance_of(entry), None, "stamped"
                if before is not None and known:
                    new = neutral_model(instance, form_of(certificate)).data
                    found = stamped(certificate, before, new)
                if found is None:
                    found, word = made(instance, certificate, seconds), "made"
                if found is None:
                    word = "lost"
                    print(f"{folder.name}/{entry.key}: lost", flush=True)
                elif write:
                    save(found, folder / entry.fields["certificate"])
                counts[word] += 1
        totals += counts
        print(f"{folder.name}: {_said(counts)}, {_cpu_s() - begin:.1f} CPU s", flush=True)
    print(f"all: {_said(totals)}, {_cpu_s():.1f} CPU s")
    return int(totals["lost"] > 0)


@contextmanager
def _old(tree: Path | None, wanted: Sequence[tuple[Path, Any]]) -> Iterator[Sequence[Data | None]]:
    if tree is None or not wanted:
        yield [None] * len(wanted)
        return
    with old_models(tree, wanted) as found:
        yield found


def _said(counts: Mapping[str, int]) -> str:
    return ", ".join(
        f"{counts.get(word, 0)} {word}" for word in ("kept", "stamped", "made", "lost")
    )


def _cpu_s() -> float:
    """Return the CPU seconds so far, with those of processes that have ended."""
    return sum(os.times()[:4])
