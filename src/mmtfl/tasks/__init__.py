"""Tasks: their container, the checks of the input, and tasks stored in files or on a cluster."""

from mmtfl.tasks.container import Tasks, TaskView

__all__ = ["TaskView", "Tasks"]
