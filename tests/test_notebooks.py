"""The notebooks are those of the tutorials, and their code runs from top to bottom."""

import json
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
MAKE = runpy.run_path(str(FOLDER / "make.py"))
NAMES = sorted(MAKE["TUTORIALS"])


def read(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_what_its_tutorial_makes(name, tmp_path):
    MAKE["main"](tmp_path)
    assert (tmp_path / f"{name}.ipynb").read_bytes() == (FOLDER / f"{name}.ipynb").read_bytes()


@pytest.mark.parametrize("name", NAMES)
def test_text_and_code_take_turns_and_no_markup_of_the_site_is_left(name):
    cells = read(name)["cells"]
    text = ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown"]
    assert text[0].startswith("# ") and sum(part.startswith("## ") for part in text) >= 3
    assert not any(mark in part for part in text for mark in (":doc:", "``", "----", "===="))


@pytest.mark.parametrize("name", [pytest.param("hospitals", marks=pytest.mark.slow), "people"])
def test_the_code_of_a_notebook_runs_from_top_to_bottom(name):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    pyplot.switch_backend("Agg")
    space = {}
    for cell in read(name)["cells"]:
        if cell["cell_type"] == "code":
            code = "".join(line for line in cell["source"] if not line.startswith("%"))
            exec(compile(code, name, "exec"), space)
    assert pyplot.get_fignums()
    pyplot.close("all")
