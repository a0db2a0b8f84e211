"""What can go wrong with an untrusted file itself, as one-line errors that name it."""

import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moeopt.core.errors import InputError


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn a failure to open, decompress or decode a file into an InputError."""
    try:
        yield
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise InputError(f"{path}: not a complete gzip file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text at byte {error.start}") from None
    except MemoryError:
        raise InputError(f"{path}: too large for this machine's memory") from None
