"""The pages of the site name every public name, and every page is reached from the first one."""

import importlib
import json
import re
import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parent.parent / "docs"
MODULES = ["mmtfl", "mmtfl.datasets", "mmtfl.model_selection", "mmtfl.plots"]
PAGES = sorted(path.stem for path in DOCS.glob("*.md"))


def listed_names():
    """Names of the reference, by module."""
    found, module = {}, None
    for line in (DOCS / "api" / "index.rst").read_text(encoding="utf-8").splitlines():
        if line.startswith(".. currentmodule::"):
            module = line.split()[-1]
        elif re.fullmatch(r"   \w+", line):
            found.setdefault(module, []).append(line.strip())
    return found


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_lists_every_public_name_once(module):
    assert sorted(listed_names()[module]) == sorted(importlib.import_module(module).__all__)


def entries(page):
    """Documents in the tables of contents of a page."""
    text = (DOCS / f"{page}.md").read_text(encoding="utf-8")
    trees = re.findall(r"```\{toctree\}\n(.*?)```", text, re.DOTALL)
    return [line for tree in trees for line in tree.split() if not line.startswith(":")]


def test_every_page_is_reached_from_the_first():
    reached, waiting = set(), ["index"]
    while waiting:
        page = waiting.pop()
        if page not in reached:
            reached.add(page)
            waiting += entries(page) if page in PAGES else []
    assert {"index", "start", "how_sure", "generated/tutorials/index", "api/index"} <= reached
    assert [page for page in PAGES if page not in reached] == []


def test_versions_and_requirements_are_the_same_everywhere():
    import tomllib

    root = DOCS.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    recipe = (root / "recipe" / "meta.yaml").read_text(encoding="utf-8")
    citation = (root / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r'version = "(.*)" %', recipe)[1] == project["version"]
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == project["version"]
    for needed in project["dependencies"]:
        assert needed.replace(">=", " >=") in recipe


def test_the_matrix_tests_the_oldest_versions_that_are_allowed():
    import tomllib

    root = DOCS.parent
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    oldest = re.search(r"oldest='(.*)'", (root / ".ci" / "matrix").read_text(encoding="utf-8"))[1]
    tested = dict(pin.split("==") for pin in oldest.split())
    for needed in (*project["dependencies"], *project["optional-dependencies"]["frames"]):
        name, least = needed.split(">=")
        assert tested[name].removesuffix(".0") == least.removesuffix(".0")


FOLDER = Path(__file__).resolve().parent.parent / "examples" / "notebooks"
MAKE = runpy.run_path(str(FOLDER / "make.py"))
NAMES = sorted(MAKE["TUTORIALS"])


def read(name):
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", NAMES)
def test_a_notebook_is_what_its_tutorial_makes(name, tmp_path):
    MAKE["main"](tmp_path)
    assert (tmp_path / f"{name}.ipynb").read_bytes() == (FOLDER / f"{name}.ipynb").read_bytes()


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
