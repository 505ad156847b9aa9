"""The family of the paper: coefficients A = diag(c) B, with a penalty on each of the two parts."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils._param_validation import InvalidParameterError

from mmtfl.estimators.base import TaskModel
from mmtfl.estimators.parameters import FamilyParameters, MemberParameters, WarmStart
from mmtfl.estimators.prepared import Prepared, StoredPrepared
from mmtfl.objective.penalties import make_penalty
from mmtfl.persistence.content_hash import fingerprint
from mmtfl.solvers import solve
from mmtfl.solvers.checkpoint import Book, Checkpoint
from mmtfl.solvers.distributed.placed import OpenTasks
from mmtfl.solvers.solve import Reporter
from mmtfl.tasks.container import Tasks
from mmtfl.tasks.stored import StoredTasks

__all__ = ["FamilyMember", "ProductForm"]


class ProductForm(TaskModel):
    """A model whose coefficients are diag(c) B.

    Attributes
    ----------
    c_ : ndarray of shape (n_features,)
        What the tasks share: zero for a feature that no task uses.
    B_ : ndarray of shape (n_features, n_tasks)
        What is each task's own: ``coef_.T == c_[:, None] * B_``.
    common_ : ndarray of shape (n_features,)
        What the tasks' coefficients scatter about, on the original scale; zeros without ``pooling``. With
        ``scale_targets`` every task has a unit of its own, and this is in the mean of these units.
    """

    def _solver_options(self) -> dict[str, Any]:
        """Return the options that the solver takes as they are."""
        names = ("solver", "max_iter", "tol", "engine", "n_jobs")
        options = {name: getattr(self, name) for name in names}
        return {**options, "report": Reporter(type(self).__name__) if self.verbose else None}

    def _open_checkpoint(self, prepared: Prepared, *others: Any) -> Checkpoint | None:
        """Open the checkpoint file of this fit of these data, if the parameters name one."""
        if self.checkpoint is None:
            return None
        # where the work is done, and what is told of it, do not change the answer
        aside = ("checkpoint", "n_jobs", "verbose", "unknown_task", "engine", "warm_start", "cv")
        params = {name: value for name, value in self.get_params(deep=False).items() if name not in aside}
        elsewhere = self.engine is not None and not self.engine.is_here
        if self.solver == "auto" and (elsewhere or not isinstance(prepared.tasks, Tasks)):
            params["solver"] = "alternating"
        data = prepared.tasks, prepared.column_scale, prepared.target_scale, prepared.start
        return Checkpoint(self.checkpoint, fingerprint(type(self).__name__, params, *data, *others))

    def _name_parts(self, prepared: Prepared, solution: Any, penalty: Any) -> None:
        A = prepared.to_original(solution.A)
        self.c_ = penalty.shared_part(solution.A)
        self.common_ = prepared.common_to_original(penalty.common_part(solution.A))
        # a row with c = 0 is a feature that no task uses: 0 * B would be NaN if B were 0 / 0
        self.B_ = np.divide(A, self.c_[:, None], out=np.zeros_like(A), where=self.c_[:, None] > 0)

    def _sizes(self) -> dict[str, np.ndarray]:
        return {"c": self.c_}


class FamilyMember(WarmStart, ProductForm, FamilyParameters, MemberParameters):
    """The member (p, k) with the strength alpha."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if self.p == self.k == np.inf:
            raise InvalidParameterError(
                "p and k are both infinite: the penalty degenerates to a box. Make one of them finite: "
                "p=inf, k=1 is the l1,inf norm, p=2, k=inf is one ridge model per task."
            )
        if self.pooling > 0.0 and self.p not in (1.0, 2.0):
            raise InvalidParameterError(
                f"pooling={self.pooling:g} needs p = 1 or p = 2, got p={self.p:g}: for other p use pooling=0."
            )

    def _prepare_stored(self, stored: StoredTasks) -> Prepared:
        """Leave stored tasks in their files for Algorithm 1, which works on some of them at a time."""
        by_rows = np.isinf(self.p) or (self.p == 1.0 and self.pooling > 0.5)
        if self.solver == "block" or by_rows:
            return super()._prepare_stored(stored)
        encoded = self._encode_stored(stored, stays=True)
        opened = OpenTasks(encoded, self._loss, fit_intercept=self.fit_intercept, engine=self.engine)
        return StoredPrepared.of(self, opened)

    def _solve(self, prepared: Prepared) -> tuple[Any, Any]:
        numbers = self._penalty_numbers()
        penalty = make_penalty(self.p, self.k, self.alpha, pooling=self.pooling, **numbers)
        kept = self._open_checkpoint(prepared, penalty)
        book = None if kept is None else Book(kept)
        problem = prepared.problem(self._loss, fit_intercept=self.fit_intercept)
        return solve(problem, penalty, start=prepared.start, book=book, **self._solver_options()), penalty
