"""What a task is: the container, and the checks of what goes into it."""

from mmtfl.tasks.container import Tasks, TaskView

__all__ = ["TaskView", "Tasks"]
