"""Write a report of simulated patients of eight hospitals: some effects are shared, some are not."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd

from mmtfl import MMTFLRegressorCV
from mmtfl.report.html import write_report

HOSPITALS = {
    "North": 60,
    "East": 45,
    "South": 80,
    "West": 35,
    "Lake": 52,
    "Hill": 70,
    "Forest": 40,
    "Coast": 30,
}
SHARED = {"age": 1.2, "creatinine": 0.9, "glucose": -0.7}
PARTIAL = {"dose": (1.0, slice(0, 4)), "haemoglobin": (-1.1, slice(4, 8)), "potassium": (0.8, slice(2, 6))}
SINGLE = {"heart rate": (1.5, 5), "temperature": (-1.3, 1)}
UNUSED = ["bmi", "systolic pressure", "smoker", "sodium", "iron", "zinc", "stay before", "lactate"]


def simulate(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray, np.ndarray]:
    """Features on very different scales, days in hospital, and the hospital of each patient."""
    rng = np.random.default_rng(seed)
    names = [*SHARED, *PARTIAL, *SINGLE, *UNUSED]
    A = pd.DataFrame(0.0, index=range(len(HOSPITALS)), columns=names)
    for name, effect in SHARED.items():
        A[name] = effect + 0.1 * rng.normal(size=len(HOSPITALS))
    for name, (effect, some) in PARTIAL.items():
        A.iloc[some, names.index(name)] = effect
    for name, (effect, one) in SINGLE.items():
        A.iloc[one, names.index(name)] = effect
    hospital = np.repeat(np.arange(len(HOSPITALS)), list(HOSPITALS.values()))
    X = rng.normal(size=(len(hospital), len(names)))
    days = (
        5 + 0.3 * hospital + np.einsum("ij,ij->i", X, A.to_numpy()[hospital]) + rng.normal(size=len(hospital))
    )
    scales = np.geomspace(0.2, 30, len(names))
    return pd.DataFrame(X * scales, columns=names), days, np.array(list(HOSPITALS))[hospital]


def main(path: str = "report.html") -> None:
    """Fit, and write the report."""
    X, days, hospital = simulate()
    model = MMTFLRegressorCV(alphas=30, standardize=True, scale_targets=True).fit(X, days, task=hospital)
    print(write_report(model, path, data=(X, days, hospital), title="Days in hospital (simulated patients)"))


if __name__ == "__main__":
    main(*sys.argv[1:])
