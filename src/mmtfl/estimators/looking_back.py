"""What a search looks back at once it has chosen: errors on held-out rows, and half samples of its choice."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from sklearn.base import is_classifier

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.intervals import heldout_errors
from mmtfl.estimators.parameters import StabilityParameters
from mmtfl.estimators.part_fits import plain_copy
from mmtfl.estimators.regression import MMTFLRegressor
from mmtfl.estimators.stability import HalfSamples, Stability, judge

__all__ = ["ChoosesMember", "KeepsErrors", "KeepsStability"]


class ChoosesMember(TaskModel):
    """A search whose choice is a member of the family with a strength."""

    def _chosen_model(self) -> TaskModel:
        """The model that was chosen, not fitted."""
        if np.ndim(self.alpha_):
            raise TypeError(f"{type(self).__name__} with per_task=True has a strength for every task.")
        chosen = {"p": self.best_p_, "k": self.best_k_, "alpha": self.alpha_, "pooling": self.best_pooling_}
        model: Any = MMTFLClassifier() if is_classifier(self) else MMTFLRegressor()
        given = {**self.get_params(deep=False), **chosen}
        return model.set_params(
            **{name: given[name] for name in model.get_params(deep=False) if name in given}
        )


class KeepsErrors(ChoosesMember):
    """A search that keeps the errors of its choice on held-out rows, for intervals."""

    _keeps_errors: ClassVar = True

    def _learn(self, prepared: Any, solution: Any, penalty: Any) -> None:
        super()._learn(prepared, solution, penalty)
        if getattr(prepared, "row_counts", None) is None:  # else few rows stand for many, and have no errors
            self.heldout_errors_ = self._heldout_errors(prepared)
        self.__dict__.pop("_on_folds", None)

    def _heldout_errors(self, prepared: Any) -> dict[str, np.ndarray]:
        found = getattr(self, "_on_folds", None)
        model = plain_copy(self._chosen_model())
        return heldout_errors(model, prepared.original_tasks(), prepared.folds, found)


class KeepsStability(StabilityParameters, ChoosesMember):
    """A search that fits its choice to half samples, if it is asked to.

    Attributes
    ----------
    stability_ : Stability or None
        What half samples say about the features of the choice, if ``stability`` asks for them; see
        `mmtfl.stability`.
    """

    def _learn(self, prepared: Any, solution: Any, penalty: Any) -> None:
        super()._learn(prepared, solution, penalty)
        self.stability_ = self._judge(prepared) if self.stability else None

    def _judge(self, prepared: Any) -> Stability:
        if getattr(prepared, "row_counts", None) is not None:
            raise ValueError("stability needs rows in memory: load the stored tasks with stored.load().")
        model, options = plain_copy(self._chosen_model()), self.get_params(deep=False)
        halves = HalfSamples(model, None, options["n_jobs"], self.verbose)
        tasks, names = prepared.original_tasks(), tuple(self._feature_names())
        n_pairs = int(options["stability"])
        return judge(halves, tasks, names, n_pairs=n_pairs, random_state=0, backend=self._backend)
