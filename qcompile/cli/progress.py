"""How fast work gets on, for a progress bar."""

from __future__ import annotations

from rich.progress import ProgressColumn, Task
from rich.text import Text


class Rate(ProgressColumn):
    """Pieces of work a second, of late; nothing before that is known."""

    def render(self, task: Task) -> Text:
        """The rate as text."""
        speed = task.finished_speed or task.speed
        if not speed:
            return Text("")
        return Text(f"{speed:,.0f}/s" if speed >= 10 else f"{speed:.1f}/s", style="progress.data.speed")


class Done(ProgressColumn):
    """How much is done, and of how much where that is known."""

    def render(self, task: Task) -> Text:
        """Both as text."""
        of = "" if task.total is None else f"/{task.total:,.0f}"
        return Text(f"{task.completed:,.0f}{of}", style="progress.download")
