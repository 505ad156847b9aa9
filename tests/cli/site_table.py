"""A table of three sites, and the words that fit a model to one."""

import numpy as np
import pandas as pd


def make_frame(n=120, seed=0):
    rng = np.random.default_rng(seed)
    site = rng.choice(["Århus", "Bern", "Cork"], n)
    frame = pd.DataFrame({"site": site, "age": rng.normal(50, 10, n).round(2)})
    frame = frame.assign(dose=rng.normal(size=n).round(3), noise=rng.normal(size=n).round(3))
    frame["colour"] = rng.choice(["red", "green", "blue"], n)
    slope = pd.Series({"Århus": 2.0, "Bern": 1.0, "Cork": 3.0})[site].to_numpy()
    frame["y"] = (0.1 * slope * frame["age"] + 2 * (site == "Bern") * frame["dose"]).round(4)
    frame["y"] += (rng.normal(size=n) * 0.5).round(4)
    return frame


def fit(data, output, *more, command="fit"):
    return [command, data, "--task site --target y -o", output, *more]
