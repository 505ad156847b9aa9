"""The rooms: each imports only from rooms on its left, and the engine imports nothing of ours."""

import ast
import re
from pathlib import Path

import pytest

import mmtfl

ROOT = Path(mmtfl.__file__).parent
ORDER = [
    *("core", "persistence", "tasks", "tables", "objective", "solvers", "inference"),
    *("model_selection", "estimators", "datasets", "plots", "report", "cli"),
]
# modules beside the rooms: errors and wording are left of all, and the command is what `python -m mmtfl` runs
MODULES = {"__main__": "cli", "errors": "leftmost", "wording": "leftmost"}
# the interface of the engines is a type the solvers name, and Threads is their default
ENGINE_USERS = ORDER[ORDER.index("solvers") :]


def sources():
    return sorted(ROOT.rglob("*.py"))


def package_of(path):
    parts = ["mmtfl", *path.relative_to(ROOT).with_suffix("").parts]
    return parts[:-1]


def imported_modules(path):
    """Dotted names of every import of the file, those inside functions and under TYPE_CHECKING included."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package_of(path)[: len(package_of(path)) - node.level + 1] if node.level else []
            module = ".".join([*base, *([node.module] if node.module else [])])
            # `from mmtfl import data` names a room in its list
            if module == "mmtfl":
                yield from (f"mmtfl.{alias.name}" for alias in node.names)
            else:
                yield module
        elif isinstance(node, ast.Call) and _is_dynamic(node):
            yield node.args[0].value


def _is_dynamic(node):
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    named = node.args and isinstance(node.args[0], ast.Constant) and isinstance(node.args[0].value, str)
    return bool(named) and name in ("import_module", "__import__")


def room_of(path):
    relative = path.relative_to(ROOT)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def our_rooms(path):
    """The rooms (or modules beside them) of ours that a file imports from."""
    return {name.split(".")[1] for name in imported_modules(path) if name.startswith("mmtfl.")}


def allowed(room):
    if room == "__init__":
        return {*ORDER, *MODULES, "engines"}
    if room == "engines" or MODULES.get(room) == "leftmost":
        return {room}
    place = ORDER.index(MODULES.get(room, room))
    rooms = set(ORDER[: place + 1]) | {room}
    rooms |= {module for module, beside in MODULES.items() if beside == "leftmost" or beside in ORDER[:place]}
    return rooms | ({"engines"} if MODULES.get(room, room) in ENGINE_USERS else set())


def test_every_folder_and_module_has_its_place():
    found = {room_of(path) for path in sources()} - {"__init__", "__main__"}
    assert found <= {*ORDER, *MODULES, "engines"}


@pytest.mark.parametrize("path", sources(), ids=lambda path: str(path.relative_to(ROOT)))
def test_a_room_imports_only_from_its_left(path):
    assert our_rooms(path) <= allowed(room_of(path))


def test_the_core_imports_nothing_of_ours():
    paths = sorted(path for path in (ROOT / "core").iterdir() if path.suffix in (".py", ".pyx", ".pxd"))
    assert {path.suffix for path in paths} == {".py", ".pyx", ".pxd"}
    for path in paths:
        text = path.read_text(encoding="utf-8")
        imported = re.findall(r"^\s*(?:from|import|cimport)\s+(mmtfl[\w.]*)", text, re.MULTILINE)
        assert all(re.match(r"mmtfl\.core(\.|$)", name) for name in imported), path
