"""A simulated table of patients from eight hospitals, with several kinds of targets and a known truth."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import Bunch, check_random_state

from mmtfl.errors import require

_SIZES = {
    "Aker": 180, "Bern": 140, "Cork": 120, "Delft": 90, "Evora": 70, "Fano": 50, "Gent": 40, "Hull": 30,
}  # fmt: skip
_MEASURED = {  # mean and standard deviation of the laboratory's numbers
    "age": (62.0, 11.0), "bmi": (27.0, 4.0), "pulse": (82.0, 11.0), "crp": (65.0, 16.0),
    "creatinine": (110.0, 20.0), "sodium": (138.0, 4.0), "iron": (16.0, 4.0), "albumin": (37.0, 4.0),
    "dose": (25.0, 5.0),
}  # fmt: skip
_EVERYWHERE = {"age": 0.9, "crp": 0.7, "albumin": -0.6}  # effects on the stay, days per standard deviation
_DOSE = {"Aker": -1.0, "Delft": -1.2, "Evora": -0.9}
_SMOKER, _SURGERY = 1.1, -0.8
_NO_ALBUMIN = "Fano"
_MISSING = 0.03  # share of the cells of creatinine and iron


def make_hospitals(*, random_state: Any = None) -> Bunch:
    """Draw a table of 720 patients from eight hospitals: the story of the tutorials.

    The length of stay depends on age, CRP, albumin, smoking and the ward in every hospital, and on the dose
    in three of them; BMI, pulse, creatinine, sodium and iron have no effect. Deaths and later visits depend
    on age and CRP. The table is as tables are: wards and smoking are words, some cells are empty, and one
    hospital never measures albumin.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of everything random.

    Returns
    -------
    Bunch
        ``frame``, a pandas data frame with the columns hospital, patient, ward, smoker, nine measurements,
        ``months`` of follow-up, and the targets ``stay`` (days), ``died`` (0 or 1) and ``visits`` (a count);
        ``X``, ``y``, ``task`` the measurements without holes, the stay and the position of the hospital;
        ``coef`` (8, 9) and ``support`` the effects on the stay per unit; ``feature_names``, ``task_names``,
        ``DESCR``.

    Examples
    --------
    >>> from mmtfl.datasets import make_hospitals
    >>> data = make_hospitals(random_state=0)
    >>> data.frame["hospital"].value_counts().tolist()
    [180, 140, 120, 90, 70, 50, 40, 30]
    >>> data.frame[["stay", "died", "visits"]].mean().round(2).tolist()[1:]
    [0.11, 1.98]
    """
    pandas = require("pandas", "frames")
    rng = check_random_state(random_state)
    names = np.array(list(_SIZES))
    task = np.repeat(np.arange(len(names)), list(_SIZES.values()))
    n, features = len(task), list(_MEASURED)
    Z = rng.standard_normal((n, len(features)))
    Z[:, features.index("creatinine")] += 0.5 * Z[:, features.index("age")]
    mean, spread = np.array(list(_MEASURED.values())).T
    X = np.round(mean + spread * Z, 1)
    smokes, surgery = rng.random_sample((2, n)) < np.array([[0.3], [0.4]])
    scaled = _effects(names, features)
    own = scaled + 0.1 * rng.standard_normal(scaled.shape) * (scaled != 0.0)
    level = 9.0 + rng.standard_normal(len(names))
    signal = np.einsum("ij,ij->i", Z, own[task]) + _SMOKER * smokes + _SURGERY * surgery
    stay = np.round(np.maximum(level[task] + signal + 1.5 * rng.standard_normal(n), 0.5), 1)
    risk = Z[:, [features.index("age"), features.index("crp")]] @ [0.8, 0.6]
    months = rng.randint(3, 25, size=n)
    frame = pandas.DataFrame({
        "hospital": names[task], "patient": np.arange(1, n + 1),
        "ward": np.where(surgery, "surgery", "medicine"), "smoker": np.where(smokes, "yes", "no"),
        **dict(zip(features, X.T, strict=True)), "months": months, "stay": stay,
        "died": (rng.random_sample(n) < 1.0 / (1.0 + np.exp(2.4 - risk))).astype(int),
        "visits": rng.poisson(months * np.exp(0.4 * risk - 2.0)),
    })  # fmt: skip
    for column in ("creatinine", "iron"):
        frame.loc[rng.random_sample(n) < _MISSING, column] = np.nan
    frame.loc[frame["hospital"] == _NO_ALBUMIN, "albumin"] = np.nan
    return Bunch(
        frame=frame, X=X, y=stay, task=task, coef=own / spread, support=scaled != 0.0, task_column="hospital",
        targets=["stay"], feature_names=features, task_names=names.tolist(),
        DESCR="Simulated patients of eight hospitals: stay, deaths and visits.",
    )  # fmt: skip


def _effects(names: np.ndarray, features: list[str]) -> np.ndarray:
    """Effects on the stay per standard deviation, (hospitals, features), before hospitals scatter."""
    effects = np.zeros((len(names), len(features)))
    for name, effect in _EVERYWHERE.items():
        effects[:, features.index(name)] = effect
    effects[:, features.index("dose")] = [_DOSE.get(name, 0.0) for name in names]
    effects[list(names).index(_NO_ALBUMIN), features.index("albumin")] = 0.0
    return effects
