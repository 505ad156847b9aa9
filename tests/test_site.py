"""The pages of the site name every public name, and every page is reached from the first one."""

import importlib
import re
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
