import numpy as np
import pytest

from cli.site_table import fit, make_frame
from cli.typed import run


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table, and a model and a classifier fitted to it."""
    folder = tmp_path_factory.mktemp("tables")
    frame = make_frame()
    frame.to_csv(folder / "data.csv", index=False)
    frame.to_parquet(folder / "data.parquet")
    frame.assign(y=3.0).to_csv(folder / "flat.csv", index=False)
    frame.assign(y=np.where(frame["y"] > frame["y"].median(), "high", "low")).to_csv(
        folder / "classes.csv", index=False
    )
    run(fit(folder / "data.csv", folder / "model.mmtfl", "--alpha 0.1 -q"))
    run(fit(folder / "classes.csv", folder / "classes.mmtfl", "--alpha 0.02 -q"))
    return folder
