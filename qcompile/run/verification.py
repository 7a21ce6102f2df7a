"""The check of a ledger together with the releases it paid for, and with the runs that it waits for."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from qcompile.privacy.ledger.charges import Entry
from qcompile.privacy.ledger.snapshot import Snapshot
from qcompile.privacy.ledger.verify import verify_ledger
from qcompile.release.files import KIND, load_release, stated_plan_hash
from qcompile.release.provenance import Provenance
from qcompile.run.unfinished import TERMS
from qcompile.support import archive


@dataclass(frozen=True)
class Unfinished:
    """A charge that waits for its release.

    Attributes:
      number: of the entry.
      run: its name.
      folder: the measurements, from which the run can be resumed; None where they are not to be found.
      looked: where they were looked for.
    """

    number: int
    run: str
    folder: Path | None
    looked: tuple[Path, ...]

    def __str__(self) -> str:
        if self.folder is not None:
            return f"unfinished; {self.folder} is there: finish it with the same command and --resume"
        where = " or ".join(map(str, self.looked))
        return f"unfinished; {where} is gone, so it cannot be resumed: the charge stays spent"


@dataclass(frozen=True)
class PaidRelease:
    """A release beside the ledger.

    Attributes:
      path: of the file.
      entry: number of the charge that paid for it; None where there is none.
      problems: a sentence for each.
    """

    path: Path
    entry: int | None
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Verification:
    """The outcome of a check.

    Attributes:
      snapshot: contents of the ledger.
      problems: of the ledger itself, a sentence for each.
      unfinished: the charges that wait for a release.
      releases: those that were asked about.
    """

    snapshot: Snapshot
    problems: tuple[str, ...]
    unfinished: tuple[Unfinished, ...]
    releases: tuple[PaidRelease, ...]

    @property
    def is_sound(self) -> bool:
        """True if there is no problem; an unfinished run is none."""
        return not (self.problems or any(r.problems for r in self.releases))


def verify(ledger: str | Path, *releases: str | Path) -> Verification:
    """Check a ledger, and that releases were paid for by it.

    Args:
      ledger: its path.
      *releases: paths of releases that it should have paid for.

    Raises:
      StorageError: the ledger or a release cannot be read.
    """
    snapshot, problems = verify_ledger(Path(ledger))
    paid = tuple(_check_release(snapshot, Path(path)) for path in releases)
    return Verification(snapshot, tuple(problems), unfinished_runs(snapshot, Path(ledger)), paid)


def unfinished_runs(snapshot: Snapshot, ledger: Path) -> tuple[Unfinished, ...]:
    """The charges that wait for a release, with the folders of their measurements."""
    return tuple(_find_folder(e, e.release, ledger) for e in snapshot.entries if e.release and e.content is None)


def _find_folder(entry: Entry, run: str, ledger: Path) -> Unfinished:
    """Look where the charge says, or, in a ledger that does not say it, beside the ledger and here."""
    name = f"{run.rpartition(' (run ')[0]}.unfinished"
    guessed = (ledger.absolute().with_name(name), Path(name).absolute())
    looked = (Path(entry.charge.folder),) if entry.charge.folder else tuple(dict.fromkeys(guessed))
    return Unfinished(entry.number, run, next((f for f in looked if _holds(f, run)), None), looked)


def _holds(folder: Path, run: str) -> bool:
    """True if a folder holds this run, and not another to the same release."""
    try:
        return bool(json.loads((folder / TERMS).read_text(encoding="utf-8"))["run"] == run)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _check_release(snapshot: Snapshot, path: Path) -> PaidRelease:
    release = load_release(path)
    for _ in release.values:  # of a large file the hashes of measurements are compared when they are read
        pass
    # A ledger noted the plan as the file states it, also where reading an old format restates it.
    terms = replace(release.provenance, plan_hash=stated_plan_hash(path))
    content = archive.stated_hash(path, KIND)
    for entry in snapshot.entries:
        if entry.content == content:
            return PaidRelease(path, entry.number, tuple(_differences(entry, terms)))
    return PaidRelease(path, None, (f"no entry of the ledger has this release{_guess(snapshot, path, terms)}",))


def _guess(snapshot: Snapshot, path: Path, terms: Provenance) -> str:
    """Name the charge that may have paid for a release, where the ledger could not be updated."""
    waiting = [e for e in snapshot.entries if e.content is None and (e.release or "").startswith(f"{path.name} (run ")]
    numbers = [str(e.number) for e in waiting if not _differences(e, terms)]
    if not numbers:
        return ": another ledger paid for it, or none"
    return f"; entry {' or '.join(numbers)} was charged for a run to this name on the same terms, and has no release"


def _differences(entry: Entry, terms: Provenance) -> list[str]:
    charge = entry.charge
    pairs = {
        "rho": (charge.rho, terms.charge),
        "plan": (charge.plan, terms.plan_hash),
        "neighbours": (charge.neighbours, terms.neighbours),
        "contributions": (charge.contributions, terms.contributions),
        "unit": (charge.unit, terms.charged_unit),
        "mechanism": (charge.mechanism, terms.mechanism),
        "noise": (charge.noise, terms.noise),
    }
    return [
        f"entry {entry.number} was charged with {name} {charged}, the release states {stated}"
        for name, (charged, stated) in pairs.items()
        if charged != stated
    ]
