"""What `moeopt.gap` returns: the solves of a campaign as a table that people and pandas read."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import pandas as pd

from moeopt.core.errors import InputError
from moeopt.core.lazy import installed
from moeopt.core.wording import package
from moeopt.study.frame import named, split_costs
from moeopt.study.table import ALL, GROUP, percent, rank, shown_interval, summarise

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEADS = ("family", "method", "optimal", "median", "95 %", "max")
"""Columns of a table for people."""


class GapRow:
    """One solve of a table: its columns are attributes, unknown is None.

    Examples
    --------
    >>> import moeopt
    >>> folder = "instances/tri_domain/esft-window"
    >>> moeopt.gap(f"{folder}/window-law-layer4-batch256.json", ["trimoe", "threshold"])[0]
    GapRow(window-law-layer4-batch256, trimoe: feasible, 32.8 % above the optimum)
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(
            {name: None if value != value else value for name, value in values.items()}
        )

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"a row has no {name!r}; it has {', '.join(self.__dict__)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GapRow) and self.__dict__ == other.__dict__

    def __hash__(self) -> int:
        return hash((self.key, self.family))

    def __repr__(self) -> str:
        above = "" if self.excess is None else f", {percent(self.excess)} above the optimum"
        return f"GapRow({_plain(self.instance)}, {_plain(self.method)}: {self.status}{above})"


class GapTable(Sequence[GapRow]):
    """Methods on instances, each solve held against the best that is known.

    A sequence of rows. ``table[0].excess`` is a number, ``table.to_frame()`` a pandas frame with a
    row for each solve, ``table.summary()`` one with a row for each method.

    Parameters
    ----------
    frame
        As `moeopt.study.study.run_campaign` returns it.
    """

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    @property
    def frame(self) -> pd.DataFrame:
        """The solves as they were computed: objectives are integers or tuples."""
        return self._frame

    def __len__(self) -> int:
        return len(self._frame)

    @overload
    def __getitem__(self, at: int) -> GapRow: ...

    @overload
    def __getitem__(self, at: slice) -> "GapTable": ...

    def __getitem__(self, at: int | slice) -> "GapRow | GapTable":
        if isinstance(at, slice):
            return GapTable(self._frame.iloc[at])
        return GapRow(self._frame.iloc[at].to_dict())

    def __iter__(self) -> Iterator[GapRow]:
        return map(GapRow, self._frame.to_dict("records"))

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each solve; each entry of an objective is a column of integers.

        ``excess`` is (objective - optimum) / optimum by the first entries, NaN where the optimum is
        not proven; ``tag_*`` say whose loads an instance has, and under which assumptions.
        """
        return split_costs(self._frame).reset_index(drop=True)

    def summary(self, by: Sequence[str] = ("problem", "family", "method")) -> pd.DataFrame:
        """Return a row for each method: how many instances are proven, and the excess.

        Parameters
        ----------
        by
            Columns whose values make the groups; information and assumptions always do.

        Examples
        --------
        >>> import moeopt
        >>> table = moeopt.gap("instances/tri_domain/esft-window", ["trimoe", "greedy"])
        >>> table.summary()[["method", "proven", "excess_median"]].round(3).head(2)
           method  proven  excess_median
        0  trimoe      24          0.210
        1  greedy      24          3.486
        """
        return summarise(self._frame, list(dict.fromkeys([*by, *GROUP[3:]])))

    def _shown(self) -> list[list[str]]:
        found = summarise(self._frame)
        several = found.problem.nunique() > 1
        lines = sorted(found.itertuples(), key=lambda s: (s.problem, s.family, *rank(s)))
        return [
            [
                _plain(f"{s.problem}/{s.family}" if several else s.family),
                _plain(f"{s.method} *" if s.assumed else s.method),
                percent(s.optimal),
                percent(s.excess_median),
                shown_interval(s),
                percent(s.excess_max),
            ]
            for s in lines
        ]

    def __repr__(self) -> str:
        rows = [list(HEADS), *self._shown()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join(
                cell.ljust(wide) if at < 2 else cell.rjust(wide)
                for at, (cell, wide) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        ]
        instances = self._frame.instance_hash.nunique()
        head = f"GapTable: {len(self)} solves of {instances} instances, excess over the optimum"
        return "\n".join([head, *lines])

    def _repr_html_(self) -> str:
        shown = pd.DataFrame(self._shown(), columns=list(HEADS))
        return str(shown.to_html(index=False, escape=True, border=0))

    def to_latex(self) -> str:
        """Return a table for LaTeX, a line for each family and method, with ``booktabs``' rules."""
        lines = [" & ".join(map(_latex, HEADS)) + r" \\", r"\midrule"]
        lines += [" & ".join(map(_latex, row)) + r" \\" for row in self._shown()]
        body = [r"\toprule", *lines, r"\bottomrule"]
        return "\n".join([r"\begin{tabular}{llrrrr}", *body, r"\end{tabular}"]) + "\n"

    def plot(self) -> "Figure":
        """Return each method's median excess with its interval and range, as a figure.

        Raises
        ------
        InputError
            If matplotlib is not installed.
        """
        if not installed("matplotlib"):
            raise InputError(f"plot: needs {package('matplotlib')}")
        from moeopt.study.report.plots import lines as chart_lines
        from moeopt.study.report.plots import overview_chart

        found = summarise(self._frame.assign(family=ALL))
        own = set(named(self._frame).label[self._frame.source_sha256 != ""])
        panels = {str(p): list(of.itertuples()) for p, of in found.groupby("problem", sort=False)}
        return overview_chart(
            [(p, chart_lines(of, (), own)) for p, of in panels.items()], columns=1
        )


LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"},
}


def _plain(text: str) -> str:
    """Return a text without signs that steer a terminal; a store may hold any."""
    return "".join(sign if sign.isprintable() else "?" for sign in text)


def _latex(text: str) -> str:
    """Return a text as LaTeX prints it."""
    return "".join(LATEX.get(sign, sign) for sign in text)
