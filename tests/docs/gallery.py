"""The notebooks of docs/gallery: their blocks run in order, and print what stands below them.

python -m tests.docs.gallery [NAME...]  # run these notebooks, or all; write outputs and pictures
"""

import contextlib
import io
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

GALLERY = Path(__file__).parents[2] / "docs" / "gallery"
BLOCKS = re.compile(r"```(python|text)\n(.*?)```", re.DOTALL)
PICTURES = re.compile(r"!\[[^\]]+\]\((\S+\.svg)\)")


def notebooks() -> list[Path]:
    """Return the pages of the gallery."""
    return sorted(page for page in GALLERY.glob("*.md") if page.name != "index.md")


def run_page(page: Path) -> list[tuple[str, str]]:
    """Return what each block prints in the current folder, and the text below it."""
    scope: dict[str, Any] = {"__name__": "notebook"}
    found: list[tuple[str, str]] = []
    printed = ""
    for kind, text in BLOCKS.findall(page.read_text()):
        if kind == "text":
            found.append((printed, text))
            continue
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(compile(text, str(page), "exec"), scope)
        printed = "".join(f"{line.rstrip()}\n" for line in out.getvalue().splitlines())
    return found


def write(page: Path) -> None:
    """Run a page beside the instances; put what it prints and draws into the documents."""
    import matplotlib as mpl

    mpl.rcParams["svg.hashsalt"] = page.stem  # the same picture has the same bytes
    os.environ["SOURCE_DATE_EPOCH"] = "0"
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        Path("instances").symlink_to(GALLERY.parents[1] / "instances")
        outputs = iter([printed for printed, _ in run_page(page)])
        for name in PICTURES.findall(page.read_text()):
            (GALLERY / name).write_bytes(Path(name).read_bytes())

    def filled(block: re.Match[str]) -> str:
        return f"```text\n{next(outputs)}```" if block[1] == "text" else block[0]

    page.write_text(BLOCKS.sub(filled, page.read_text()))


if __name__ == "__main__":
    for notebook in notebooks():
        if not sys.argv[1:] or notebook.stem in sys.argv[1:]:
            write(notebook)
