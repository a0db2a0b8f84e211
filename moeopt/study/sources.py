"""Where a study's instances come from: files, folders, or objects made in code."""

from pathlib import Path

from moeopt.errors import InputError
from moeopt.problems.envelope import InstanceEnvelope
from moeopt.problems.files import load

Source = str | Path | InstanceEnvelope
"""An instance file, a folder to search, or an instance."""


def instance_files(folder: Path) -> list[Path]:
    """Return the instance files below a folder, in order: no indexes, no solutions."""
    return sorted(
        path
        for path in folder.rglob("*.json*")
        if path.name.endswith((".json", ".json.gz"))
        and path.name not in ("index.json", "best_known.json")
        and "solutions" not in path.relative_to(folder).parts
    )


def load_all(source: Source) -> list[tuple[str, InstanceEnvelope]]:
    """Return (family, instance) for all that a source holds; the family is the folder, or "-".

    Raises
    ------
    InputError
        If a file cannot be used or a folder holds no instance.
    """
    if isinstance(source, InstanceEnvelope):
        return [("-", source)]
    path = Path(source)
    if not path.is_dir():
        return [(path.resolve().parent.name or "-", load(path))]
    files = instance_files(path)
    if not files:
        raise InputError(f"{path}: holds no instance files (*.json, *.json.gz)")
    return [(file.resolve().parent.name, load(file)) for file in files]
