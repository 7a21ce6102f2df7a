"""Curves of errors as small SVG files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

STYLES: Mapping[str, str] = {"batch": "--", "adaptive": "-"}
"""Of a line, by the first word of its name."""


def plot(file: Path, title: str, lines: Mapping[str, Mapping[float, float]]) -> None:
    """Draw lines over epsilon, both axes logarithmic; the same lines give the same bytes.

    Args:
      file: the SVG to write; its folder is made where there is none.
      title: above.
      lines: error by epsilon, by name.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullFormatter

    # Text stays text, so that the file is small; salt and no date make it the same every time.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "qcompile", "font.size": 9}):
        figure = Figure(figsize=(6, 4), layout="constrained")
        axes = figure.add_subplot(xscale="log", yscale="log", xlabel="epsilon", ylabel="L1/N, projected", title=title)
        for name, values in lines.items():
            axes.plot(list(values), list(values.values()), STYLES[name.partition(",")[0]], marker=".", label=name)
        epsilons = list(next(iter(lines.values())))
        axes.set_xticks(epsilons, [f"{e:g}" for e in epsilons])
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.grid(which="both", linewidth=0.3)
        axes.legend()
        file.parent.mkdir(parents=True, exist_ok=True)
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})
