"""skglm: a group lasso on the block design, whose columns are the features of single tasks."""

import warnings
from typing import ClassVar

from benchopt import BaseSolver
from skglm import GroupLasso

from mmtfl_lab.bench.libraries import block_columns


class Solver(BaseSolver):
    """Working sets and coordinate descent over groups."""

    name = "skglm"
    sampling_strategy = "run_once"
    parameters: ClassVar = {"tolerance": [1e-2, 1e-4, 1e-6, 1e-8]}

    def set_objective(self, data, alpha):
        """Make the block design; its loss is a mean over all rows, ours over those of a task."""
        self.data, self.X = data, block_columns(data)
        self.model = GroupLasso(groups=data.n_tasks, alpha=alpha / data.n_tasks, fit_intercept=False)

    def warm_up(self):
        """Compile."""
        self.run(None)

    def run(self, _):
        """Fit at the tolerance of this solver."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=self.tolerance).fit(self.X, self.data.y)

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"A": self.model.coef_.reshape(-1, self.data.n_tasks)}
