"""What is at a path, and writing in one step: either the whole new file is there, or nothing changed."""

from __future__ import annotations

import itertools
import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from qcompile.errors import StorageError


def place(path: Path) -> Literal["file", "folder", "nothing", "device"]:
    """What is at a path, links followed, before anything is opened: opening a pipe may wait forever.

    Returns:
      "device" for pipes, sockets and devices, which need not have an end.

    Raises:
      OSError: it cannot be looked at: links in a circle, a forbidden folder, a name too long.
      ValueError: it is no path, such as a text with a zero character.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "nothing"
    if stat.S_ISDIR(mode):
        return "folder"
    return "file" if stat.S_ISREG(mode) else "device"


def require_place(path: str | Path) -> None:
    """Refuse a path that cannot be written to, before the work that would be lost.

    Raises:
      StorageError: the folder does not exist or is not writable, or the path is a folder or a write-protected file.
    """
    path = Path(path)
    if path.is_dir():
        raise StorageError(f"cannot write {path}: it is a folder; give the name of a file")
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise StorageError(f"cannot write {path}: the folder {path.parent} does not exist or is not writable")
    if path.exists() and not os.access(path, os.W_OK):
        raise StorageError(f"cannot write {path}: it is write-protected; give another name, or make it writable")


@contextmanager
def replacing(path: str | Path) -> Iterator[Path]:
    """A temporary file beside ``path``, to be filled by the caller, which takes its place when the block succeeds.

    The contents are on disk before the rename, which is atomic. A link stays a link; a file keeps its permissions,
    a new one has the usual ones. Where the block fails, nothing is left behind.

    Raises:
      StorageError: the file cannot be written.
    """
    require_place(path)
    target = Path(path).resolve()
    temporary: Path | None = None
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
        os.close(handle)
        temporary = Path(name)
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        temporary.chmod(target.stat().st_mode & 0o7777 if target.exists() else usual_mode())
        os.replace(temporary, target)
    except OSError as e:
        raise StorageError(f"cannot write {path}: {e.strerror or e}") from None
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)  # gone already where it was renamed


def set_aside(path: str | Path) -> Path | None:
    """Give what stands at ``path`` the first free name of ``path.1``, ``path.2``, ...; None where nothing does.

    Raises:
      StorageError: it cannot be renamed.
    """
    path = Path(path)
    if not path.exists():
        return None
    numbered = (path.with_name(f"{path.name}.{i}") for i in itertools.count(1))
    aside = next(p for p in numbered if not p.exists())
    try:
        os.rename(path, aside)
    except OSError as e:
        raise StorageError(f"cannot rename {path}, which is in the way: {e.strerror or e}") from None
    return aside


def usual_mode() -> int:
    """The permissions of a new file: what the umask leaves of reading and writing for all."""
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
