"""What a search looks back at once it has chosen: errors on held-out rows, and half samples of its choice."""

from dataclasses import replace
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
from mmtfl.model_selection.splitting import TaskTimeSplit, time_blocks


class ChoosesMember(TaskModel):
    """A search whose choice is a member of the family with a strength."""

    def _chosen_model(self) -> TaskModel:
        """The model that was chosen, not fitted."""
        if np.ndim(self.alpha_):
            raise TypeError(f"{type(self).__name__} with per_task=True has a strength for every task.")
        return self._member_at(self.alpha_)

    def _member_at(self, alpha: float) -> TaskModel:
        """The member that was chosen, at some strength."""
        chosen = {"p": self.best_p_, "k": self.best_k_, "alpha": alpha, "pooling": self.best_pooling_}
        model: Any = MMTFLClassifier() if is_classifier(self) else MMTFLRegressor()
        given = {**self.get_params(deep=False), **chosen}
        return model.set_params(
            **{name: given[name] for name in model.get_params(deep=False) if name in given}
        )

    def _search_checkpoint(self, prepared: Any) -> Any:
        """The checkpoint of the search, in which the half samples go on."""
        raise TypeError("a search says where its checkpoint is")


class KeepsErrors(ChoosesMember):
    """A search that keeps the errors of its choice on held-out rows, for intervals and sets."""

    _keeps_errors: ClassVar = True

    def _learn(self, prepared: Any, solution: Any, penalty: Any) -> None:
        super()._learn(prepared, solution, penalty)
        # few rows that stand for many have no errors
        if getattr(prepared, "row_counts", None) is None and self._errors_tell:
            errors = self._heldout_errors(prepared)
            left_out = prepared.left_out
            self.heldout_errors_ = errors if left_out is None else left_out.widen_errors(errors)
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
        model, options = plain_copy(self._chosen_model()), self.get_params(deep=False)
        halves = HalfSamples(model, None, options["n_jobs"], self.verbose)
        tasks, names = prepared.original_tasks(), tuple(self._feature_names())
        if tasks.groups is None and isinstance(options["cv"], TaskTimeSplit):
            tasks = replace(tasks, groups=time_blocks(tasks.observation_task))
        return judge(
            halves, tasks, names, n_pairs=int(options["stability"]), random_state=0,
            checkpoint=self._search_checkpoint(prepared), backend=self._backend,
        )  # fmt: skip
