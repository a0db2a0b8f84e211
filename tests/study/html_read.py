"""A page as its reader sees it: tables, figures, links, texts."""

from dataclasses import dataclass, field
from html.parser import HTMLParser

VOID = {"meta", "link", "img", "br", "input", "hr"}


@dataclass
class Element:
    """An element, what stands in it, and its text."""

    tag: str
    attributes: dict[str, str]
    children: list["Element"] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)

    def all(self, tag: str | None = None) -> list["Element"]:
        """Return the elements below, in order, of one tag or of any."""
        found = []
        for child in self.children:
            found += [child] if tag in (None, child.tag) else []
            found += child.all(tag)
        return found

    @property
    def text(self) -> str:
        """The text of the element and of all below, blanks as one."""
        return " ".join(" ".join(self.texts).split())


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open = [Element("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        element = Element(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(element)
        if tag not in VOID:
            self.open.append(element)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Element(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open[-1].tag == tag, f"</{tag}> closes <{self.open[-1].tag}>"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        for element in self.open:
            element.texts.append(data)


def read_html(text: str) -> Element:
    """Return a page's root; every element must be closed where it was opened."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    assert [element.tag for element in reader.open] == [""]
    return reader.open[0]


def tables(page: Element) -> list[list[list[str]]]:
    """Return every table's rows of cells, the head first."""
    return [
        [[cell.text for cell in row.all() if cell.tag in ("th", "td")] for row in table.all("tr")]
        for table in page.all("table")
    ]
