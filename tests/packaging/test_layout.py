"""One import root from three top-level folders, and every package declared."""

from __future__ import annotations

import importlib.metadata
import itertools
import pathlib
import re
import subprocess
import sys
import tomllib

import grimp
import networkx
import pytest

from tests.conftest import wide_tests

ROOT = pathlib.Path(__file__).resolve().parents[2]
MAPPED = {"qcompile": ROOT / "qcompile", "qcompile.grammar": ROOT / "grammar", "qcompile.solvers": ROOT / "solvers"}


def packages_on_disk() -> set[str]:
    found: set[str] = set()
    for prefix, folder in MAPPED.items():
        for init in folder.rglob("__init__.py"):  # rglob does not follow links
            found.add(".".join((prefix, *init.parent.relative_to(folder).parts)))
    return found


def test_every_package_is_declared() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]["packages"]
    assert set(declared) == packages_on_disk()


@pytest.mark.parametrize("name", ["grammar", "solvers"])
def test_development_link(name: str) -> None:
    assert (ROOT / "qcompile" / name).resolve() == ROOT / name, (
        "git config core.symlinks true; git checkout -- qcompile"
    )


def test_only_one_import_root() -> None:
    roots = {t for t, d in importlib.metadata.packages_distributions().items() if "qcompile" in d}
    assert {r for r in roots if not r.startswith("__editable__")} == {"qcompile"}


def test_version_is_said_once() -> None:
    import qcompile

    assert importlib.metadata.version("qcompile") == qcompile.__version__


def test_public_names_resolve() -> None:
    import qcompile

    for name in qcompile.__all__:
        assert getattr(qcompile, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = qcompile.nonsense


def test_wide_tests_exist() -> None:
    """A line that names no test would let a dear one back into `make check`."""
    wide = wide_tests()
    assert len(wide) > 50
    for test in wide:
        file, _, function = test.partition("::")
        assert f"\ndef {function}(" in (ROOT / file).read_text(encoding="utf-8"), test


def test_imports_go_one_way() -> None:
    command = pathlib.Path(sys.executable).with_name("lint-imports")
    done = subprocess.run([command], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


MOST_MODULES = 12
"""Modules of a folder besides `__init__`: more are too many to find one's way in."""


def test_no_module_is_in_an_import_circle() -> None:
    """Imports inside functions and imports for types count too."""
    imports = grimp.build_graph("qcompile", exclude_type_checking_imports=False, cache_dir=None)
    graph = networkx.DiGraph(
        (module, imported)
        for module in imports.modules
        for imported in imports.find_modules_directly_imported_by(module)
    )
    assert graph.has_edge("qcompile.grammar", "qcompile.grammar.reading.parser"), "an import inside a function"
    assert graph.has_edge("qcompile.api", "qcompile.privacy.budget"), "an import for types"
    assert [sorted(c) for c in networkx.strongly_connected_components(graph) if len(c) > 1] == []


def test_no_folder_has_too_many_modules() -> None:
    folders = itertools.chain.from_iterable((root, *root.rglob("*/")) for root in MAPPED.values())
    counts = {f: sum(m.stem != "__init__" for m in f.glob("*.py")) for f in folders}
    assert max(counts.values()) > 5
    assert {f.name: n for f, n in counts.items() if n > MOST_MODULES} == {}


def test_the_import_contracts_have_no_exceptions() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert contracts["contracts"]
    assert not contracts["exclude_type_checking_imports"]
    assert "ignore_imports" not in str(contracts)


def test_the_package_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "qcompile", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("qcompile ")


def test_the_notation_table_names_places_that_exist() -> None:
    text = (ROOT / "docs" / "notation.md").read_text()
    paths = set(re.findall(r"`((?:qcompile|solvers)/[\w/.]*)`", text))
    assert len(paths) > 20
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert "docs/notation.md" in (ROOT / "CONTRIBUTING.md").read_text()
