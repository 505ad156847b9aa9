"""What a task is: the container, and the checks of what goes into it."""

from mmtfl.data.tasks import Tasks, TaskView

__all__ = ["TaskView", "Tasks"]
