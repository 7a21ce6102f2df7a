"""Kinds of paths, and atomic writes: either the whole new file is there, or nothing changed."""

from __future__ import annotations

import os
import re
import stat
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from qcompile.errors import StorageError


def place(path: Path) -> Literal["file", "folder", "nothing", "device"]:
    """Return the kind of a path, links followed, without opening it: opening a pipe may wait forever.

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


def require_place(path: str | Path) -> Path:
    """Refuse a path that cannot be written to, before the work that would be lost; returns it with links followed.

    Raises:
      StorageError: the folder does not exist or is not writable, the name is too long, or it is not
        a file, or a write-protected one.
    """
    try:
        target = Path(path).resolve()
        there = place(target)
    except (OSError, ValueError, RuntimeError) as e:  # RuntimeError: links in a circle
        raise StorageError(f"cannot write {shorten(path)}: {getattr(e, 'strerror', None) or e}") from None
    if there == "folder":
        raise StorageError(f"cannot write {path}: it is a folder; give the name of a file")
    if there == "device":
        raise StorageError(f"cannot write {path}: it is a pipe or a device; give the name of a file")
    if not target.parent.is_dir() or not os.access(target.parent, os.W_OK):
        folder = target.parent if Path(path).is_symlink() else Path(path).parent
        raise StorageError(f"cannot write {path}: the folder {folder} does not exist or is not writable")
    if there == "file" and not any(os.access(target, os.W_OK) or not target.exists() for _ in range(20)):
        # Asked more than once, as another run may be moving it at this moment.
        raise StorageError(f"cannot write {path}: it is write-protected; give another name, or make it writable")
    return target


LONGEST_NAME = 240
"""Bytes of a file's name: with a few more behind it (a number, or what SQLite adds), it must still be one."""


def require_short_name(target: Path) -> None:
    """Refuse a name that leaves no room for an ending, or that is not UTF-8.

    Raises:
      StorageError: it is too long, or no text.
    """
    if len(os.fsencode(target.name)) > LONGEST_NAME:
        raise StorageError(f"cannot write {shorten(target)}: the name is too long; use a shorter one")
    try:
        target.name.encode()
    except UnicodeEncodeError:
        raise StorageError(f"cannot write {shorten(target)!r}: the name is not UTF-8; use another one") from None


@contextmanager
def replacing(path: str | Path, *, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary file for the caller to fill; it takes the place of ``path`` when the block succeeds.

    The contents are on disk before the rename, which is atomic. A link stays a link; a file keeps its permissions,
    a new one has the usual ones. Where the block fails, nothing is left behind.

    Args:
      path: of the file.
      mode: permissions of a new file, such as 0o600; the usual ones where None.

    Raises:
      StorageError: the file cannot be written.
    """
    target = require_place(path)
    try:
        with hidden_file(target) as temporary:
            yield temporary
            new_mode = usual_mode() if mode is None else mode
            finish_file(temporary, target.stat().st_mode & 0o7777 if target.exists() else new_mode)
            os.replace(temporary, target)
            sync_folder(target.parent)
    except OSError as e:
        raise StorageError(f"cannot write {path}: {e.strerror or e}") from None


@contextmanager
def hidden_file(target: Path) -> Iterator[Path]:
    """Yield a hidden empty file in the folder of ``target``; removed when the block ends."""
    path = create_hidden(target)
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)  # gone already where it was renamed


def create_hidden(target: Path) -> Path:
    """Create a hidden empty file in the folder of ``target``."""
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part")
    os.close(handle)
    return Path(name)


def finish_file(path: Path, mode: int) -> None:
    """Put the contents of a file on disk and give it its permissions."""
    with path.open("rb") as written:
        os.fsync(written.fileno())
    path.chmod(mode)


def sync_folder(folder: Path) -> None:
    """Put the names in a folder on disk, where the system can: else a power cut may undo a rename."""
    if os.name == "nt":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def shorten(path: object) -> str:
    """Shorten a path for a message; hide the address of a database, which may hold a password."""
    text = str(path)
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/|.*passw", text, re.DOTALL):
        return "what was given, the address of a database"
    return text if len(text) <= 80 else f"{text[:40]}...{text[-37:]}"


_UMASK = threading.Lock()


def usual_mode() -> int:
    """Return the permissions of a new file under the current umask."""
    with _UMASK:  # the only way to read the umask is to change it for a moment
        mask = os.umask(0o077)
        os.umask(mask)
    return 0o666 & ~mask
