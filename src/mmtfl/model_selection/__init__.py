"""Splitting and scoring with tasks, for scikit-learn's searches and cross-validation."""

from mmtfl.model_selection.metrics import per_task_scores
from mmtfl.model_selection.scoring import leave_task_out_scores, task_scorer
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit, tasks_train_test_split

__all__ = [
    "TaskKFold",
    "TaskTimeSplit",
    "leave_task_out_scores",
    "per_task_scores",
    "task_scorer",
    "tasks_train_test_split",
]
