"""mmtfl: the public estimator."""

import warnings

from benchopt import BaseSolver

from mmtfl import MMTFLRegressor


class Solver(BaseSolver):
    """Row descent with working sets."""

    name = "mmtfl"
    sampling_strategy = "tolerance"

    def set_objective(self, data, alpha):
        """Keep the data."""
        self.data = data
        self.model = MMTFLRegressor(2, 2, alpha=alpha, fit_intercept=False, max_iter=10_000)

    def warm_up(self):
        """Compile."""
        self.run(1.0)

    def run(self, tolerance):
        """Fit at one tolerance, at most as small as rounding allows."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.model.set_params(tol=max(tolerance, 1e-13)).fit(self.data.X, self.data.y, self.data.task)

    def get_result(self):
        """The coefficients, features by tasks."""
        return {"A": self.model.coef_.T}
