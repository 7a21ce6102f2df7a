"""Columns of a progress bar."""

from __future__ import annotations

from rich.progress import ProgressColumn, Task
from rich.text import Text


class Rate(ProgressColumn):
    """Recent speed, in pieces of work per second; empty until it is known."""

    def render(self, task: Task) -> Text:
        """Return the rate as text."""
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s", style="progress.data.speed")


class Done(ProgressColumn):
    """Pieces of work that are done, and their total where it is known."""

    def render(self, task: Task) -> Text:
        """Return both as text."""
        of = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{of}", style="progress.download")
