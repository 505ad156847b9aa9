"""What a fitted model shows: a summary, effects, curves, a few lines in a notebook; and its file."""

from __future__ import annotations

import os
from collections.abc import Callable
from types import MethodType
from typing import Any

from sklearn.utils.validation import check_is_fitted

from mmtfl.estimators.feature_use import sharing_html, summary_columns
from mmtfl.estimators.fitted_curves import curve_columns
from mmtfl.inference.effect_table import EffectTable, check_coverage
from mmtfl.tasks.frames import make_frame


class ParameterAndMethod:
    """A method with the name of a parameter: assignment stores the parameter, reading gives the method."""

    def __init__(self, method: Callable[..., Any]):
        self.method, self.__doc__ = method, method.__doc__

    def __get__(self, model: Any, owner: type | None = None) -> Any:
        return self if model is None else MethodType(self.method, model)

    def __set__(self, model: Any, value: Any) -> None:
        vars(model)[self.method.__name__] = value


class Results:
    """What is learned, for people: tables of features and of effects, curves, and a file."""

    def summary(self) -> Any:
        """Tell which features are used by all tasks, by some, by one or by none, and which way.

        A task could use a feature if the feature varies within its rows. With p > 1 a kept feature is used by
        every task that could use it by construction: the table says which features the model keeps, not in
        which tasks they matter.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per feature, largest ``c`` first:

            - feature, c;
            - common and scatter, where the model has a common part (``pooling``): what the tasks'
              coefficients scatter about, and the root mean square over the tasks of their distance from it,
              both in the units of the data;
            - n_tasks: how many tasks use it;
            - kind: "shared" (used by all tasks that could use it), "partial" (by at least two, but not all),
              "single" (by one) or "none";
            - mean_coef, min_coef, max_coef: mean, smallest and largest coefficient over the tasks that could
              use it, in the units of the data;
            - mean_coef_per_sd: the mean for one standard deviation of the feature over all rows;
            - n_possible: how many tasks could use it;
            - shape: "line" or "curve", empty if it is not used;
            - direction: "rising" or "falling" where the common part, or the mean over the tasks, is monotone
              over the range of the rows fitted, else empty (coefficients are those of the lines alone);
            - level_effect, where levels are shrunk: how much higher the level of a task is where a column
              that is the same in all its rows is higher by one; NaN where that is not found, at a false
              discovery rate of 10 %.
        """
        model = self._fitted()
        return make_frame(summary_columns(model), model._backend)

    def _fitted(self) -> Any:
        """The fitted model: of a search around a model, the model that was chosen."""
        check_is_fitted(self)
        return vars(self).get("best_estimator_", self)

    def _html_repr(self) -> str:
        fitted = vars(self).get("best_estimator_", self)
        return super()._html_repr() + (sharing_html(fitted) if hasattr(fitted, "coef_") else "")  # type: ignore[misc]

    def curve(self, feature: Any, values: Any = None, task: Any = None) -> Any:
        """Give the effect of a feature on the linear predictor, at some of its values.

        Parameters
        ----------
        feature : str or int
            Its name, or its position.
        values : array-like of shape (n_values,), optional
            Where; by default 101 values over the range of the rows fitted. Beyond it curves go on straight.
        task : str, int or list of them, optional
            Labels of tasks; by default the common part of a model with pooling, and the mean over the tasks
            of another one.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            The values under the name of the feature, the task where tasks were asked for, and ``effect``,
            whose mean over the rows fitted is zero.

        Examples
        --------
        >>> import numpy as np
        >>> from mmtfl import MMTFLRegressor
        >>> rng = np.random.default_rng(0)
        >>> X, task = rng.uniform(-1, 1, size=(400, 2)), np.repeat(["a", "b"], 200)
        >>> y = X[:, 0] ** 2 + X[:, 1] + 0.1 * rng.normal(size=400)
        >>> model = MMTFLRegressor(p=2, k=2, alpha=0.001, curves=True).fit(X, y, task=task)
        >>> model.curve(0, [-1.0, 0.0, 1.0])["effect"].round(1).tolist()
        [0.6, -0.3, 0.6]
        """
        model = self._fitted()
        return make_frame(curve_columns(model, feature, values, task), model._backend)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Get the parameters, as in scikit-learn; `effects` is the name of a method too."""
        params = super().get_params(deep)  # type: ignore[misc]
        return {**params, "effects": vars(self)["effects"]} if "effects" in params else params

    def _effects(self, coverage: float = 0.9) -> Any:
        """Tell for each feature how much it matters on average over the tasks, and how far the tasks differ.

        An effect is the change of the prediction (of log odds for classes, of the logarithm for counts) per
        unit of the feature, with the other features held. It is not shrunk, and has an error, whether the
        model keeps the feature or not. The average over tasks is that of a random-effects meta-analysis;
        see ``docs/how_sure.md``.

        Parameters
        ----------
        coverage : float, default=0.9
            Of all intervals.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per feature, largest evidence first:

            - feature, column: its name, and the column of the table that it comes from;
            - average, lower, upper: the average effect over tasks with its interval; p, q: the p-value of
              no average effect, and the false discovery rate over features;
            - spread, spread_lower, spread_upper: standard deviation of the effect between tasks;
              same_direction: share of tasks whose effect has the sign of the average; new_task_lower,
              new_task_upper: what a new task may have;
            - n_tasks: in how many tasks the feature varies;
            - per_sd: average per standard deviation of the feature; quartiles, quartiles_lower,
              quartiles_upper: of going from its lower to its upper quartile;
            - p_column: joint test of all features of the column;
            - word: "everywhere", "differs", "on average", "only in some", "not found", "too few tasks" or
              "cannot be told apart"; note: what belongs to it;
            - odds_ratio (classes) or rate_ratio (counts), with _lower and _upper: exp of the average.

        Examples
        --------
        >>> from mmtfl import MMTFLRegressorCV
        >>> from mmtfl.datasets import make_tasks
        >>> data = make_tasks(n_tasks=6, n_samples=80, n_features=5, n_informative=2, noise=0.5,
        ...                   random_state=0, law=lambda rng, shape: 1.0 + 0.1 * rng.uniform(size=shape))
        >>> model = MMTFLRegressorCV(alphas=15, cv=3).fit(data.X, data.y, task=data.task)
        >>> model.effects()[["feature", "word"]].head(3).values.tolist()
        [['x0', 'everywhere'], ['x1', 'everywhere'], ['x4', 'not found']]
        """
        model = self._fitted()
        return make_frame(EffectTable(model, check_coverage(coverage)).columns(), model._backend)

    _effects.__name__ = "effects"
    effects: Any = ParameterAndMethod(_effects)

    def task_effects(self, feature: str | int, coverage: float = 0.9) -> Any:
        """Tell the effect of one feature in every task.

        Parameters
        ----------
        feature : str or int
            Its name or position.
        coverage : float, default=0.9
            Of all intervals.

        Returns
        -------
        frame : frame of the library X came from, else pandas, polars or pyarrow
            One row per task: task; effect, lower, upper: what its own rows show, NaN where the feature does
            not vary; shrunk, shrunk_lower, shrunk_upper: the same drawn to the average of all tasks;
            n_rows.

        Examples
        --------
        >>> from mmtfl import MMTFLRegressor
        >>> from mmtfl.datasets import make_tasks
        >>> data = make_tasks(n_tasks=3, n_samples=60, n_features=4, n_informative=2, random_state=0)
        >>> model = MMTFLRegressor(alpha=0.1, effects=True).fit(data.X, data.y, task=data.task)
        >>> model.task_effects("x0").columns.tolist()
        ['task', 'effect', 'lower', 'upper', 'shrunk', 'shrunk_lower', 'shrunk_upper', 'n_rows']
        """
        model = self._fitted()
        table = EffectTable(model, check_coverage(coverage))
        return make_frame(table.of_tasks(table.place(feature)), model._backend)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = True) -> None:
        """Save the fitted model in one file, for `mmtfl.load`.

        Predictions of the loaded model are the same, bit for bit. Parameters with no place in a file, such
        as an engine or a splitter of your own, are left out with a warning: predictions do not need them.

        Parameters
        ----------
        path : str or path
            The file, by custom ``something.mmtfl``. It is written whole or not at all.
        overwrite : bool, default=True
            Whether a file of that name may be replaced.
        """
        from mmtfl.estimators.model_files import save_model

        save_model(self, path, overwrite=overwrite)
