"""Unfinished runs: the folder ``x.release.unfinished`` beside the release ``x.release``.

It holds a `Journal` and, in ``run.json``, the terms of the run; a resumed run must have the same terms. It exists from
before the charge until the release has its name. It holds noisy measurements and public terms, no exact count.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from qcompile.errors import StorageError
from qcompile.run.journal import Journal
from qcompile.run.journal.lock import lock_folder
from qcompile.support.files import require_place, require_short_name, shorten, sync_folder

VERSION = 2
"""1 had parts that do not certify themselves: one that was written and not noted was drawn again."""

TERMS = "run.json"


def folder_of(output: str | Path) -> Path:
    """The folder of an unfinished run that is to write ``output``."""
    target = Path(os.path.realpath(output))
    return target.with_name(f"{target.name}.unfinished")


def require_none(output: str | Path) -> None:
    """Refuse to begin a run that is unfinished.

    Raises:
      StorageError: there is one.
    """
    folder = folder_of(output)
    if os.path.lexists(folder):
        raise StorageError(
            f"{folder} holds an unfinished run, which may be paid for; finish it with --resume, resume=True; to give "
            "it up, delete the folder"
        )


def require_one(output: str | Path) -> None:
    """Refuse to resume a run that is not unfinished.

    Raises:
      StorageError: there is no such run.
    """
    folder = folder_of(output)
    if folder.is_dir():
        return
    if os.path.lexists(output):
        raise StorageError(
            f"there is nothing to resume: {folder} is missing and {output} exists, so the run has finished; a new run "
            "would be charged"
        )
    raise StorageError(f"there is nothing to resume: {folder} is missing; run it without --resume, resume=True")


@contextmanager
def unfinished(
    output: str | Path, terms: Mapping[str, Any], check: Callable[[Journal], object], *, resume: bool = False
) -> Iterator[Journal]:
    """Begin the run that writes a release, or resume it.

    Where nothing was paid for or drawn in the block, the folder that was made goes with it; otherwise it stays.

    Args:
      output: the release.
      terms: of the run, plain data; those of a resumed run must be the same.
      check: of the measurements of a resumed run; raises ValueError, LookupError or TypeError where they do not fit.
      resume: whether a run is to be resumed.

    Raises:
      StorageError: a run to be begun is unfinished; a run to be resumed does not exist, has other terms or is damaged;
        another process works on it; the disk refuses.
    """
    target = require_place(output)
    require_short_name(target)
    journal = _resume(target, terms, check) if resume else _begin(target, terms)
    try:
        yield journal
    finally:
        if not (resume or journal.holds_paid_work):
            journal.remove()
        journal.close()


def _begin(target: Path, terms: Mapping[str, Any]) -> Journal:
    require_none(target)
    folder = folder_of(target)
    try:
        # Made under another name first, so that no folder of this name is without its terms.
        hidden = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name[:40]}.", suffix=".part"))
        run = f"{target.name} (run {hidden.name.split('.')[-2]})"
        try:
            _write_terms(hidden / TERMS, {"version": VERSION, "run": run, "terms": dict(terms)})
            lock_folder(hidden).close()  # where the disk has no locks, nothing is left behind
            hidden.rename(folder)
        except (OSError, StorageError):
            shutil.rmtree(hidden, ignore_errors=True)
            require_none(target)  # another run was quicker
            raise
        sync_folder(target.parent)
        return Journal(target, folder, run)
    except OSError as e:
        raise StorageError(f"cannot write {shorten(folder)}: {e.strerror or e}") from None


def _write_terms(path: Path, stated: Mapping[str, Any]) -> None:
    with path.open("w", encoding="utf-8") as file:
        json.dump(stated, file, sort_keys=True, indent=1)
        file.flush()
        os.fsync(file.fileno())
    sync_folder(path.parent)


def _resume(target: Path, terms: Mapping[str, Any], check: Callable[[Journal], object]) -> Journal:
    require_one(target)
    folder = folder_of(target)
    try:
        stated = _read_terms(folder)
        _require_same(folder, stated["terms"], terms)
        journal = Journal(target, folder, str(stated["run"]))
        with ExitStack() as failed:
            failed.callback(journal.close)
            journal.read()
            check(journal)
            failed.pop_all()
    except StorageError:
        raise
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        raise StorageError(
            f"{folder} is damaged, so the run cannot be resumed; what it charged is spent: delete the folder, and run "
            "anew"
        ) from None
    return journal


FOLLOWING = ("budget", "schema hash", "stamps", "version")
"""Terms that follow from others; a message names those instead."""


def _difference(name: str, stated: object, asked: object) -> str:
    if name == "data":
        return "table (or the file was changed since)"
    if name == "plan hash":
        return "plan"
    return f"{name} ({'none' if stated is None else stated}, not {'none' if asked is None else asked})"


def _read_terms(folder: Path) -> dict[str, Any]:
    stated = json.loads((folder / TERMS).read_text(encoding="utf-8"))
    if stated["version"] != VERSION:
        version = stated["terms"]["version"]
        raise StorageError(f"{folder} was left by qcompile {version}, in another format; resume it with that version")
    return dict(stated)


def _require_same(folder: Path, stated: Mapping[str, Any], terms: Mapping[str, Any]) -> None:
    asked = json.loads(json.dumps(terms))
    other = sorted(name for name in {*stated, *asked} if stated.get(name) != asked.get(name))
    if other:
        named = [n for n in other if n not in FOLLOWING] or other
        differing = ", ".join(_difference(n, stated.get(n), asked.get(n)) for n in named)
        raise StorageError(
            f"the unfinished run in {folder} was begun with another {differing}; resume it with the same plan, data "
            "and options"
        )
