"""mmtfl: the public estimator."""

import warnings
from typing import ClassVar

from benchopt import BaseSolver

from mmtfl import MMTFLRegressor


class Solver(BaseSolver):
    """Row descent with working sets."""

    name = "mmtfl"
    sampling_strategy = "run_once"
    parameters: ClassVar = {"tolerance": [1e-2, 1e-4, 1e-6, 1e-8]}

    def set_objective(self, data, alpha):
        """Keep the data."""
        self.data = data
        self.model = MMTFLRegressor(2, 2, alpha=alpha, fit_intercept=False, max_iter=10_000)

    def warm_up(self):
        """Compile."""
        self.run(None)

    def run(self, _):
        """Fit at the tolerance of this solver."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=self.tolerance).fit(self.data.X, self.data.y, self.data.task)

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"A": self.model.coef_.T}
