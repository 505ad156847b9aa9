"""mmtfl for the public benchopt benchmark of the multi-task lasso: 1/2 ||Y - X W||_F^2 + lmbd ||W||_2,1."""

import warnings
from typing import ClassVar

from benchopt import BaseSolver

from mmtfl import MMTFLRegressor


class Solver(BaseSolver):
    """Row descent with working sets, the (2, 2) member of the family."""

    name = "mmtfl"
    sampling_strategy = "run_once"
    parameters: ClassVar = {"tolerance": [1e-2, 1e-4, 1e-6, 1e-8]}
    requirements: ClassVar = ["pip::mmtfl"]

    def set_objective(self, X, Y, lmbd):
        """Keep the data; our loss is a mean over rows, so that lmbd is divided by their number."""
        self.X, self.Y = X, Y
        self.model = MMTFLRegressor(2, 2, alpha=lmbd / len(X), fit_intercept=False, max_iter=10_000)

    def warm_up(self):
        """Compile."""
        self.run(None)

    def run(self, _):
        """Fit at the tolerance of this solver."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=self.tolerance).fit(self.X, self.Y)

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"W": self.model.coef_.T}
