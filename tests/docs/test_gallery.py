"""The notebooks of docs/gallery do what they say, and the gallery leads to each of them."""

from pathlib import Path

import pytest

from tests.docs.gallery import GALLERY, PICTURES, notebooks, run_page


@pytest.mark.parametrize("page", notebooks(), ids=lambda page: page.stem)
def test_a_notebook_prints_and_draws_what_it_says(
    page: Path, root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every block of text stands below a block of Python; every picture is one that it drew."""
    (tmp_path / "instances").symlink_to(root / "instances")
    monkeypatch.chdir(tmp_path)
    pairs = run_page(page)
    assert pairs
    for printed, said in pairs:
        assert printed == said
    pictures = PICTURES.findall(page.read_text())
    for name in pictures:
        assert Path(name).read_text().startswith("<?xml")
        assert (GALLERY / name).is_file()


def test_the_gallery_leads_to_every_notebook() -> None:
    """Six at least, each with a line; no picture lies about that no page shows."""
    index = (GALLERY / "index.md").read_text()
    found = notebooks()
    assert len(found) >= 6
    for page in found:
        assert f"]({page.name})" in index
    shown = {name for page in found for name in PICTURES.findall(page.read_text())}
    assert {picture.name for picture in GALLERY.glob("*.svg")} == shown
