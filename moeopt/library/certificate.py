"""Check certificates of lower bounds: ``python certificate.py FILE...``.

This file needs Python and nothing else; it imports no part of moeopt. It reads models, which
``moeopt library model`` writes, and certificates, finds the model of each certificate by its hash,
and says which lower bound is proven. All arithmetic is in Python's integers.

Model (JSON, format "moeopt-model"): minimise ``(objective + constant) / denominator`` subject to

    rows  [[[variable, coefficient], ...], ">=" or "<=" or "=", right-hand side, constraint]
    vars  [[least or null, largest or null, whether it is a whole number], ...]

Every objective is a multiple of ``grid``. ``lemmas`` names what the model rests on beyond the
problem's constraints; the specification has them, and they are not checked here.

Certificate (JSON, format "moeopt-certificate"): suppose a solution costs less than ``bound``, so at
most the next lower multiple of the grid, the cutoff. It lies in some leaf of the ``tree``, as a
branch on a whole number, ``x <= v`` or ``x >= v + 1``, leaves nothing out. A leaf contradicts it:
``[w, [[row, y], ...]]``, with w >= 0, y >= 0 for rows ">=", y <= 0 for rows "<=" and any y for
rows "=", adds y times the rows and w times the cutoff up to a row that nothing within the leaf's
bounds satisfies (Farkas' lemma, in the form of Neumaier and Shcherbina, Safe bounds in linear and
mixed-integer linear programming, Math. Program. 99, 2004). Before that, at most ``propagation``
times per node, bounds are tightened by a row; that alone may leave nothing. ``tree`` lists nodes in
preorder: ``[variable, v]`` branches, the side ``x <= v`` first; a number says which entry of
``leaves`` contradicts; -1, that tightening the bounds leaves nothing.

A certificate of ``parts`` relaxes rows with multipliers: ``relaxed``, in steps of 1/``scale``. What
remains falls into parts that share no variable: each has ``vars``, and a ``bound`` of its share of
the objective, times the scale, with ``tree`` and ``leaves`` as above. The bounds add up.

Exit code 0: all are proven; 2: one is refused, or a file cannot be read.
"""

import gzip
import hashlib
import json
import sys
import zlib
from collections import deque
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

MAX_BYTES = 2**26
"""Largest file, expanded; besides at most `MAX_RATIO` times what it weighs, or 1 MiB."""

MAX_RATIO = 200

MAX_DIGITS = 60
"""Of any number."""

MAX_STEPS = 30_000_000
"""Most terms of rows that are looked at for one certificate: about half a minute."""

Terms = list[tuple[int, int]]
"""Pairs of variable and coefficient."""


class RefusedError(Exception):
    """Says in one line why a file is no model, no certificate, or proves nothing."""


class Model:
    """A model in integers, checked for form.

    Attributes
    ----------
    lower, upper, whole
        Bounds of the variables, None where there is none, and which are whole numbers.
    terms, least, most
        Of each row, ``least <= sum of terms <= most``, None where there is no such side.
    objective, constant, denominator, grid
        See the head of this file.
    """

    def __init__(self, data: dict[str, Any]) -> None:
        self.sha256 = canonical_hash(data)
        self.problem, self.instance = str(data.get("problem")), str(data.get("instance"))
        self.lemmas = [str(one)[:200] for one in many(data, "lemmas")]
        variables = [listed(one, 3, f"vars[{n}]") for n, one in enumerate(many(data, "vars"))]
        self.lower = [None if one[0] is None else integer(one[0], "vars") for one in variables]
        self.upper = [None if one[1] is None else integer(one[1], "vars") for one in variables]
        self.whole = [one[2] is True for one in variables]
        self.terms: list[Terms] = []
        self.least: list[int | None] = []
        self.most: list[int | None] = []
        for number, row in enumerate(many(data, "rows")):
            where = f"rows[{number}]"
            terms, sense, side, _ = listed(row, 4, where)
            if sense not in (">=", "<=", "="):
                raise RefusedError(f"{where}: the sense must be >=, <= or =")
            self.terms.append(self._terms(terms, where))
            self.least.append(integer(side, where) if sense != "<=" else None)
            self.most.append(integer(side, where) if sense != ">=" else None)
        self.objective = self._terms(many(data, "objective"), "objective")
        self.constant = integer(data.get("constant"), "constant")
        self.denominator = integer(data.get("denominator"), "denominator")
        self.grid = integer(data.get("grid"), "grid")
        if self.denominator < 1 or self.grid < 1:
            raise RefusedError("denominator, grid: must be at least 1")

    def _terms(self, given: Any, where: str) -> Terms:
        """Return pairs of variable and coefficient, each variable at most once."""
        found: dict[int, int] = {}
        for term in given if isinstance(given, list) else [None]:
            variable, factor = (integer(one, where) for one in listed(term, 2, where))
            if not 0 <= variable < len(self.lower) or variable in found:
                raise RefusedError(f"{where}: variable {variable} is unknown or stands twice")
            found[variable] = factor
        return list(found.items())

    def part(self, rows: list[int], objective: Terms) -> "Model":
        """Return the model of some of the rows, with another objective."""
        part = object.__new__(Model)
        part.lower, part.upper, part.whole = self.lower, self.upper, self.whole
        part.terms = [self.terms[row] for row in rows]
        part.least = [self.least[row] for row in rows]
        part.most = [self.most[row] for row in rows]
        part.objective, part.constant, part.denominator, part.grid = objective, 0, 1, 1
        return part

    def cutoff(self, bound: int) -> int:
        """Return the most that the sum of the objective's terms may be below a bound."""
        below = -(-bound // self.grid) * self.grid - self.grid
        return below * self.denominator - self.constant

    def side(self, row: int, factor: int, where: str) -> int:
        """Return the side of a row that counts with a multiplier of this sign, times it."""
        if not 0 <= row < len(self.terms):
            raise RefusedError(f"{where}: row {row} is unknown")
        side = self.least[row] if factor > 0 else self.most[row]
        if side is None:
            raise RefusedError(f"{where}: the multiplier of row {row} has the wrong sign")
        return factor * side


class Steps:
    """Counts the work, so that no file costs more than `MAX_STEPS`."""

    def __init__(self, left: int = MAX_STEPS) -> None:
        self.left = left

    def spend(self, steps: int) -> None:
        """Raise `RefusedError` if that is too much."""
        self.left -= steps + 1
        if self.left < 0:
            raise RefusedError("takes too many steps to check")


class Box:
    """Bounds of all variables at a node, tightened by rows and taken back.

    Attributes
    ----------
    empty
        Whether nothing is left.
    trail
        Variables that were narrowed with their bounds before, for `restore`.
    """

    def __init__(self, model: Model, cutoff: int, steps: Steps, propagation: int) -> None:
        self.steps, self.propagation = steps, propagation
        self.lower, self.upper, self.whole = list(model.lower), list(model.upper), model.whole
        self.empty = False
        self.trail: list[tuple[int, int | None, int | None]] = []
        self.rows = list(zip(model.terms, model.least, model.most, strict=True))
        self.rows.append((model.objective, None, cutoff))
        self.rows_of: dict[int, list[int]] = {}
        for row, (terms, _, _) in enumerate(self.rows):
            steps.spend(len(terms))
            for variable, _ in terms:
                self.rows_of.setdefault(variable, []).append(row)

    def branch(self, variable: int, lower: int | None, upper: int | None) -> None:
        """Take in bounds of a variable, and tighten what follows from them."""
        if not self.empty and self._narrow(variable, lower, upper):
            self.tighten(self.rows_of.get(variable, ()))

    def restore(self, mark: int, empty: bool) -> None:
        """Take everything back since the trail had length `mark`."""
        while len(self.trail) > mark:
            variable, self.lower[variable], self.upper[variable] = self.trail.pop()
        self.empty = empty

    def tighten(self, rows: Iterable[int]) -> None:
        """Tighten bounds by rows, and by those that this touches, `propagation` at most."""
        queue = deque(rows)
        waiting = set(queue)
        for _ in range(self.propagation):
            if not queue or self.empty:
                return
            row = queue.popleft()
            waiting.discard(row)
            terms, least, most = self.rows[row]
            self.steps.spend(2 * len(terms))
            changed = [] if most is None else self._by_row(terms, 1, most)
            changed += [] if least is None or self.empty else self._by_row(terms, -1, -least)
            for variable in changed:
                touched = [one for one in self.rows_of[variable] if one not in waiting]
                waiting.update(touched)
                queue.extend(touched)

    def _narrow(self, variable: int, lower: int | None, upper: int | None) -> bool:
        """Take in bounds; return whether one is new."""
        low, high = self.lower[variable], self.upper[variable]
        new_low = low if lower is None or (low is not None and low >= lower) else lower
        new_high = high if upper is None or (high is not None and high <= upper) else upper
        if (new_low, new_high) == (low, high):
            return False
        self.trail.append((variable, low, high))
        self.lower[variable], self.upper[variable] = new_low, new_high
        self.empty = new_low is not None and new_high is not None and new_low > new_high
        return True

    def _by_row(self, terms: Terms, sign: int, side: int) -> list[int]:
        """Tighten by ``sum of sign * coefficient * x <= side``; return the variables changed.

        No bound that is changed here is one that `least` is made of. Bounds of variables that are
        no whole numbers are rounded outwards.
        """
        least, alone = 0, None
        for variable, factor in terms:
            at = self.lower[variable] if sign * factor > 0 else self.upper[variable]
            if at is not None:
                least += sign * factor * at
            elif factor and alone is not None:
                return []
            elif factor:
                alone = variable
        self.empty = alone is None and least > side
        changed: list[int] = []
        for variable, coefficient in () if self.empty else terms:
            factor = sign * coefficient
            if not factor or alone not in (None, variable):
                continue
            at = self.lower[variable] if factor > 0 else self.upper[variable]
            room = side - least + (0 if at is None else factor * at)  # factor * x is at most this
            down, up = room // abs(factor), -(-room // abs(factor))
            if factor > 0:
                new = self._narrow(variable, None, down if self.whole[variable] else up)
            else:
                new = self._narrow(variable, -down if self.whole[variable] else -up, None)
            changed += [variable] * new
            if self.empty:
                return changed
        return changed


def contradicts(model: Model, box: Box, cutoff: int, leaf: Any, where: str) -> bool:
    """Tell whether multipliers add the rows up to one that nothing in the box satisfies."""
    weight, multipliers = listed(leaf, 2, where)
    if integer(weight, where) < 0:
        raise RefusedError(f"{where}: w must not be negative")
    side = -weight * cutoff
    total = {variable: -weight * factor for variable, factor in model.objective if weight}
    for pair in many({where: multipliers}, where):
        row, factor = (integer(one, where) for one in listed(pair, 2, where))
        side += model.side(row, factor, where)
        box.steps.spend(len(model.terms[row]))
        for variable, coefficient in model.terms[row]:
            total[variable] = total.get(variable, 0) + factor * coefficient
    box.steps.spend(len(total))
    most = 0
    for variable, factor in total.items():
        at = box.upper[variable] if factor > 0 else box.lower[variable]
        if factor and at is None:
            return False
        most += factor * (at or 0)
    return most < side


def check_tree(model: Model, bound: int, proof: dict[str, Any], steps: Steps, where: str) -> None:
    """Check that nothing costs less than `bound`; raise `RefusedError` if that is not shown."""
    cutoff, leaves = model.cutoff(bound), many(proof, "leaves")
    propagation = integer(proof.get("propagation"), f"{where}propagation")
    box = Box(model, cutoff, steps, min(max(propagation, 0), MAX_STEPS))
    box.tighten(range(len(box.rows)))
    pending: list[tuple[int, bool, int, int]] | None = []
    for number, node in enumerate(many(proof, "tree")):
        at = f"{where}tree[{number}]"
        steps.spend(0)
        if pending is None:
            raise RefusedError(f"{at}: stands after the tree's end")
        if isinstance(node, list):
            variable, value = (integer(one, at) for one in listed(node, 2, at))
            if not 0 <= variable < len(model.whole) or not model.whole[variable]:
                raise RefusedError(f"{at}: {variable} is no variable of whole numbers")
            pending.append((len(box.trail), box.empty, variable, value))
            box.branch(variable, None, value)
            continue
        leaf = integer(node, at)
        if not box.empty:
            if not 0 <= leaf < len(leaves):
                raise RefusedError(f"{at}: bounds leave something, and no leaf is named")
            if not contradicts(model, box, cutoff, leaves[leaf], at):
                raise RefusedError(f"{at}: its multipliers contradict nothing")
        if pending:
            mark, empty, variable, value = pending.pop()
            box.restore(mark, empty)
            box.branch(variable, value + 1, None)
        else:
            pending = None
    if pending is not None:
        raise RefusedError(f"{where}tree: ends too early")


def check_parts(model: Model, bound: int, proof: dict[str, Any], steps: Steps) -> None:
    """Check a certificate of parts; raise `RefusedError` if it does not show the bound."""
    scale = integer(proof.get("scale"), "scale")
    if scale < 1:
        raise RefusedError("scale: must be at least 1")
    objective = {variable: scale * factor for variable, factor in model.objective}
    total, relaxed = scale * model.constant, set()
    for number, pair in enumerate(many(proof, "relaxed")):
        where = f"relaxed[{number}]"
        row, factor = (integer(one, where) for one in listed(pair, 2, where))
        total += model.side(row, factor, where)
        relaxed.add(row)
        steps.spend(len(model.terms[row]))
        for variable, coefficient in model.terms[row]:
            objective[variable] = objective.get(variable, 0) - factor * coefficient
    part_of: dict[int, int] = {}
    parts = many(proof, "parts")
    for number, part in enumerate(parts):
        for variable in many(part, "vars"):
            if not 0 <= integer(variable, "vars") < len(model.lower) or variable in part_of:
                raise RefusedError(f"parts[{number}].vars: one is unknown or in two parts")
            part_of[variable] = number
    rows_of: dict[int, list[int]] = {}
    for row, terms in enumerate(model.terms):
        steps.spend(len(terms))
        homes = {part_of.get(variable) for variable, _ in terms}
        if row not in relaxed and len(homes) == 1 and (home := homes.pop()) is not None:
            rows_of.setdefault(home, []).append(row)
    for number, part in enumerate(parts):
        costs = [(v, objective[v]) for v in part["vars"] if objective.get(v)]
        least = integer(part.get("bound"), f"parts[{number}].bound")
        own = model.part(rows_of.get(number, []), costs)
        check_tree(own, least, part, steps, f"parts[{number}].")
        total += least
    for variable, factor in objective.items():
        if factor and variable not in part_of:
            at = model.lower[variable] if factor > 0 else model.upper[variable]
            if at is None:
                raise RefusedError(f"parts: variable {variable} is in none and has no bound")
            total += factor * at
    reached = -(-total // (scale * model.denominator * model.grid)) * model.grid
    if reached < bound:
        raise RefusedError(f"parts: prove {reached}, not {bound}")


def verify(model: Model, certificate: dict[str, Any]) -> int:
    """Return the bound that a certificate proves of a model.

    Raises
    ------
    RefusedError
        If it is of another model, or does not prove its bound.
    """
    if certificate.get("model_sha256") != model.sha256:
        raise RefusedError("model_sha256: is that of another model")
    bound, steps = integer(certificate.get("bound"), "bound"), Steps()
    if "parts" in certificate:
        check_parts(model, bound, certificate, steps)
    else:
        check_tree(model, bound, certificate, steps, "")
    return bound


def integer(value: Any, where: str) -> int:
    """Return a value that is an integer of at most `MAX_DIGITS` digits."""
    if type(value) is not int or abs(value) >= 10**MAX_DIGITS:
        raise RefusedError(f"{where}: must be an integer of at most {MAX_DIGITS} digits")
    return value


def listed(value: Any, length: int, where: str) -> list[Any]:
    """Return a value that is a list of so many items."""
    if not isinstance(value, list) or len(value) != length:
        raise RefusedError(f"{where}: must be a list of {length}")
    return value


def many(data: Any, field: str) -> list[Any]:
    """Return a field that is a list."""
    value = data.get(field) if isinstance(data, Mapping) else None
    if not isinstance(value, list):
        raise RefusedError(f"{field}: must be a list")
    return value


def canonical_hash(data: dict[str, Any]) -> str:
    """Return the SHA-256 of an object, whatever the order and spacing of its file."""
    plain = json.dumps(data, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(plain.encode()).hexdigest()


def read(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file, plain or gzip, of bounded size."""
    try:
        with path.open("rb") as file:
            raw = file.read(MAX_BYTES + 1)
        most = MAX_BYTES
        if raw[:2] == b"\x1f\x8b":
            most = min(MAX_BYTES, max(2**20, MAX_RATIO * len(raw)))
            with gzip.open(path) as file:
                raw = file.read(most + 1)
        data = json.loads(raw) if len(raw) <= most else None
    except (OSError, EOFError, zlib.error) as error:
        raise RefusedError(f"cannot be read: {error}") from None
    except (ValueError, RecursionError):
        raise RefusedError("is no JSON") from None
    if data is None:
        raise RefusedError(f"expands to more than {most} bytes")
    if not isinstance(data, dict) or data.get("version") != 2:
        raise RefusedError("version: must be an object of version 2")
    return data


def main(names: list[str]) -> int:
    """Check files; print a line for each certificate."""
    models: dict[str, Model] = {}
    certificates, faults = [], 0
    for name in names:
        try:
            data = read(Path(name))
            if data.get("format") == "moeopt-certificate":
                certificates.append((name, data))
            elif data.get("format") == "moeopt-model":
                model = Model(data)
                models[model.sha256] = model
            else:
                raise RefusedError("format: must be moeopt-model or moeopt-certificate")
        except RefusedError as error:
            faults += 1
            print(f"{ascii(name)[1:-1]}: {error}", file=sys.stderr)
    for name, data in certificates:
        try:
            of = models.get(str(data.get("model_sha256")))
            if of is None:
                raise RefusedError("model_sha256: its model is not among the files")
            proven = f"{of.problem}/{of.instance}: nothing costs less than {verify(of, data)}"
            rests = f"; rests on: {', '.join(of.lemmas)}" if of.lemmas else ""
            print(ascii(f"{name}: {proven}{rests}")[1:-1])
        except RefusedError as error:
            faults += 1
            print(f"{ascii(name)[1:-1]}: {error}", file=sys.stderr)
    return 2 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
