"""A run inside a real Jupyter kernel, as a plain installation has it: without ipywidgets."""

import importlib.util

import pytest

CELL = """
import qcompile as qc

plan = qc.compile('schema { a : integer 0..9 clip } workload { m : prefix(a) }')
release = plan.run({'a': [1, 5, 5]}, qc.Budget(rho=1), noise='none')
print([round(x) for x in release.answers('m')['estimate'].to_pylist()])
"""


@pytest.mark.filterwarnings("default")  # of Jupyter's own parts
def test_a_plan_runs_in_a_kernel_without_ipywidgets() -> None:
    from nbclient import NotebookClient
    from nbformat import from_dict

    assert importlib.util.find_spec("ipywidgets") is None, "the test needs a kernel without ipywidgets"
    cell: dict[str, object] = {
        "cell_type": "code",
        "execution_count": None,
        "metadata": {},
        "outputs": [],
        "source": CELL,
    }
    notebook = from_dict({"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    NotebookClient(notebook, timeout=120, kernel_name="python3").execute()
    streams = [output["text"] for output in notebook.cells[0].outputs if output["name"] == "stdout"]
    assert "[0, 1, 1, 1, 1, 3, 3, 3, 3, 3]" in "".join(streams)
