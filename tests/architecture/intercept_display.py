"""A new plot: the intercept of each task, as one of scikit-learn's Display objects."""

from dataclasses import dataclass

import numpy as np

from mmtfl.plots.figures import Display


@dataclass(eq=False, repr=False)
class InterceptDisplay(Display):
    """The intercepts, largest first, with their mean."""

    intercepts: np.ndarray
    labels: np.ndarray

    @classmethod
    def from_estimator(cls, model, *, ax=None):
        """Draw the intercepts of a fitted model."""
        return cls(model.intercept_, model.tasks_).plot(ax)

    def _draw(self):
        order = np.argsort(-self.intercepts, kind="stable")
        names = [str(label) for label in self.labels[order]]
        self.bars_ = self.ax_.barh(names, self.intercepts[order])
        self.mean_ = self.ax_.axvline(self.intercepts.mean(), color="black", linestyle=":")
        self.ax_.invert_yaxis()  # the largest at the top
        self.ax_.set_xlabel("intercept (dotted: mean of the tasks)")
