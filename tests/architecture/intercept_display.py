"""A new plot: the intercept of each task, as one of scikit-learn's Display objects."""

import numpy as np

from mmtfl.errors import require


class InterceptDisplay:
    """The intercepts, largest first, with their mean."""

    def __init__(self, intercepts, labels):
        self.intercepts, self.labels = intercepts, labels

    @classmethod
    def from_estimator(cls, model, *, ax=None):
        """Draw the intercepts of a fitted model."""
        return cls(model.intercept_, model.tasks_).plot(ax)

    def plot(self, ax=None):
        """Draw the bars."""
        pyplot = require("matplotlib.pyplot", "plots")  # late, and with a word on the extra that has it
        self.ax_ = pyplot.subplots(figsize=(5.0, 3.0), layout="constrained")[1] if ax is None else ax
        self.figure_ = self.ax_.figure
        order = np.argsort(-self.intercepts, kind="stable")
        names = [str(label) for label in self.labels[order]]
        self.bars_ = self.ax_.barh(names, self.intercepts[order])
        self.mean_ = self.ax_.axvline(self.intercepts.mean(), color="black", linestyle=":")
        self.ax_.invert_yaxis()  # the largest at the top
        self.ax_.set_xlabel("intercept (dotted: mean of the tasks)")
        return self
