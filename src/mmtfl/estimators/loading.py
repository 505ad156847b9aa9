"""Load a saved model: the only module that knows every class a file may name."""

import os
from typing import Any

from mmtfl.estimators import two_strengths as two
from mmtfl.estimators.classification import MMTFLClassifier
from mmtfl.estimators.curves import Curves
from mmtfl.estimators.learned_attributes import Unsound
from mmtfl.estimators.regression import MMTFLRegressor
from mmtfl.estimators.saving import model_from_state
from mmtfl.estimators.search import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.estimators.single_task import SingleTaskClassifierCV, SingleTaskRegressorCV
from mmtfl.estimators.supported_features import Stability
from mmtfl.estimators.two_strength_search import TwoStrengthCV
from mmtfl.model_selection.splitting import TaskKFold, TaskTimeSplit
from mmtfl.persistence.archive import ModelFileError, read_archive
from mmtfl.solvers.path import Path
from mmtfl.tables.encoder import TableEncoder
from mmtfl.tables.recipe import TableRecipe

_PRODUCT = ("c_",)
_SEARCHED = ("alpha_", "alphas_", "best_p_", "best_k_", "best_score_", "cv_results_", "path_")
_OUTLIERS = ("shared_", "outlier_", "outlier_tasks_")
_PAIRS = (
    *("best_estimator_", "best_params_", "best_score_", "best_index_"),
    *("strengths_", "cv_results_", "n_splits_"),
)
# every estimator a file may hold, and the learned attributes it has beyond those of all estimators
ESTIMATORS: dict[type, tuple[str, ...]] = {
    **dict.fromkeys((MMTFLRegressor, MMTFLClassifier), _PRODUCT),
    **dict.fromkeys((MMTFLRegressorCV, MMTFLClassifierCV), _PRODUCT + _SEARCHED),
    **dict.fromkeys((SingleTaskRegressorCV, SingleTaskClassifierCV), _PRODUCT + _SEARCHED),
    **dict.fromkeys((two.DirtyRegressor, two.DirtyClassifier), ("shared_", "specific_")),
    **dict.fromkeys(
        (two.RobustRegressor, two.RobustClassifier, two.LowRankRegressor, two.LowRankClassifier), _OUTLIERS
    ),
    **dict.fromkeys((two.CappedRegressor, two.CappedClassifier), ("capped_",)),
    TwoStrengthCV: _PAIRS,
}
_NEEDED = {cls.__name__: needed for cls, needed in ESTIMATORS.items()}
_OTHERS = (Curves, Path, Stability, TableEncoder, TableRecipe, TaskKFold, TaskTimeSplit)
_CLASSES: dict[str, Any] = {cls.__name__: cls for cls in (*ESTIMATORS, *_OTHERS)}


def load(path: str | os.PathLike[str]) -> Any:
    """Load a model that was saved with its ``save`` method.

    Nothing in the file is executed: it holds arrays and JSON, of which every size, name and parameter is
    checked. Predictions equal those of the model that was saved, bit for bit.

    Parameters
    ----------
    path : str or path
        The file.

    Returns
    -------
    model : estimator
        Fitted.

    Raises
    ------
    ValueError
        If the file is something else, of a newer version, cut short or changed; one line that says which.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from mmtfl import MMTFLRegressor, load
    >>> rng = np.random.default_rng(0)
    >>> X, task = rng.normal(size=(60, 3)), np.repeat(["north", "south"], 30)
    >>> model = MMTFLRegressor(alpha=0.05).fit(X, X[:, 0], task=task)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.mmtfl"))
    ...     loaded = load(os.path.join(folder, "model.mmtfl"))
    >>> bool(np.array_equal(loaded.predict(X, task=task), model.predict(X, task=task)))
    True
    >>> loaded.tasks_.tolist()
    ['north', 'south']
    """
    content, arrays = read_archive(path)
    try:
        model = model_from_state(content, arrays, _CLASSES, _NEEDED)
        if not isinstance(getattr(model, "recipe_", None), TableRecipe | None):
            raise Unsound("recipe_ does not say how a table is read")
        return model
    except MemoryError:
        raise
    except Exception as error:  # a forged file may fail anywhere, and the file is to blame
        why = str(error).partition("\n")[0].rstrip(".")
        raise ModelFileError(f"{os.fspath(path)!r} is not a sound model file: {why}.") from error
