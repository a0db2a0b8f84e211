"""Figures as elements of a page and as files, with their texts as texts."""

import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from xml.etree import ElementTree as Xml

import matplotlib as mpl
from markupsafe import Markup
from matplotlib.figure import Figure

from moeopt.study.pictures import save_figure

SVG, XLINK = "http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"

Xml.register_namespace("", SVG)
Xml.register_namespace("xlink", XLINK)

DECIMALS = re.compile(r"-?[0-9]+\.[0-9]+")

FONT_PT = 9.5


def inline(draw: Callable[[], Figure], key: str, title: str, description: str) -> Markup:
    """Return a figure as an SVG element, the same bytes each time.

    Parameters
    ----------
    draw
        Makes the figure; every text in it is shown as it is, `$` included.
    key
        Starts the element's ids, so that no two figures of a page share one.
    title, description
        What screen readers say.
    """
    with _plain_text():
        text = StringIO()
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type"))
        draw().savefig(text, format="svg", transparent=True, metadata=nothing)
    whole = text.getvalue()
    root = Xml.fromstring(whole[whole.index("<svg") :])  # noqa: S314 - written three lines above
    for name in ("width", "height", "version"):
        root.attrib.pop(name, None)
    for element in root.iter(f"{{{SVG}}}path"):
        element.set("d", DECIMALS.sub(_tenth, " ".join(element.get("d", "").split())))
    for defs in root.findall(f"{{{SVG}}}defs"):
        for style in defs.findall(f"{{{SVG}}}style"):
            defs.remove(style)  # a rule for "*" would be one for the whole page
    _own_ids(root, key)
    root.set("role", "img")
    root.set("aria-labelledby", f"{key}-title {key}-desc")
    for number, (tag, words) in enumerate((("title", title), ("desc", description))):
        element = Xml.Element(f"{{{SVG}}}{tag}", {"id": f"{key}-{tag}"})
        element.text = words
        root.insert(number, element)
    return Markup(Xml.tostring(root, encoding="unicode"))  # noqa: S704 - Xml escapes texts


def save(draw: Callable[[], Figure], folder: Path, name: str) -> list[Path]:
    """Write a figure as a PDF and an SVG, with the texts as texts, and return the files."""
    files = [folder / f"{name}.pdf", folder / f"{name}.svg"]
    with _plain_text():
        figure = draw()
        for file in files:
            save_figure(figure, file)
    return files


def _tenth(number: re.Match[str]) -> str:
    """Return a coordinate to a tenth of a point: a third of the page's size otherwise."""
    return f"{float(number[0]):.1f}".removesuffix(".0")


@contextmanager
def _plain_text() -> Iterator[None]:
    """Draw texts as they are; a font that lacks a sign is no matter, since texts stay texts."""
    texts = mpl.rc_context(
        {
            "svg.hashsalt": "moeopt",
            "svg.fonttype": "none",
            "pdf.fonttype": 42,
            "text.parse_math": False,
            "font.size": FONT_PT,
        }
    )
    with texts, warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph", category=UserWarning)
        yield


def _own_ids(root: Xml.Element, key: str) -> None:
    """Put `key` before the ids that are referred to, and drop the others."""
    elements = list(root.iter())
    referred = set()
    for element in elements:
        for name, value in element.attrib.items():
            target = _target(name, value)
            if target is not None:
                referred.add(target)
                element.set(name, value.replace(f"#{target}", f"#{key}-{target}"))
    for element in elements:
        own = element.attrib.pop("id", None)
        if own in referred:
            element.set("id", f"{key}-{own}")


def _target(name: str, value: str) -> str | None:
    """Return the id that an attribute refers to."""
    if name == f"{{{XLINK}}}href" and value.startswith("#"):
        return value[1:]
    if value.startswith("url(#"):
        return value[len("url(#") : -1]
    return None
