"""A few pages of the site, built as the whole is, in seconds."""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import yaml

ONLY = '''"""MkDocs hook: leave out all pages but some."""

PAGES = {pages!r}


def on_files(files, config):
    """Remove what is not asked for."""
    for file in list(files.documentation_pages()):
        if file.src_uri not in PAGES:
            files.remove(file)
    return files
'''


def build(root: Path, folder: Path, pages: Sequence[str]) -> Path:
    """Return the folder of a site of these pages, without the reference of the library."""
    only = folder / "only_pages.py"
    only.write_text(ONLY.format(pages=[page.replace(".html", ".md") for page in pages]))
    whole = yaml.load((root / "mkdocs.yml").read_text(), yaml.BaseLoader)
    settings = {
        "INHERIT": str(root / "mkdocs.yml"),
        "docs_dir": str(root / "docs"),
        "hooks": [str(root / hook) for hook in whole["hooks"]] + [str(only)],
        "plugins": [plugin for plugin in whole["plugins"] if isinstance(plugin, str)],
        "nav": [{"Pages": [page.replace(".html", ".md") for page in pages]}],
    }
    (folder / "mkdocs.yml").write_text(yaml.safe_dump(settings))
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "-d", str(folder / "site")]
    command += ["-f", str(folder / "mkdocs.yml")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr  # that links lead to other pages is no error
    return folder / "site"
