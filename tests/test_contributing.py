"""What contributors are told exists, and the checks before a commit catch what they are for."""

import re
import subprocess
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
HOOKS = {
    hook["id"]: hook
    for repo in yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))["repos"]
    for hook in repo["hooks"]
}


def tracked():
    """Files of the checkout; where there is no git, all of the folders that count."""
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True, text=True
        ).stdout
        return [name for name in listed.split("\0") if name]
    except (OSError, subprocess.CalledProcessError):
        folders = ("src", "tests", "docs", "examples", "benchmarks")
        found = [path for folder in folders for path in (ROOT / folder).rglob("*") if path.is_file()]
        return [path.relative_to(ROOT).as_posix() for path in found if "__pycache__" not in path.parts]


def test_every_target_named_is_one_of_make():
    named = set(re.findall(r"\bmake ([a-z-]+)", PAGE))
    assert {"setup", "lint", "test", "test-all", "processors"} <= named
    phony = re.search(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[1].split()
    assert named <= set(phony)


def test_every_file_named_exists():
    named = set(re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.md|\.pre-commit-config\.yaml)`", PAGE))
    named |= set(re.findall(r"\]\(([^)]+)\)", PAGE)) | set(
        re.findall(r"(?:benchmarks|\.ci)/\w+(?:\.py)?", PAGE)
    )
    assert {"tests/oracles.py", "docs/architecture.md", "benchmarks/same_answers.py"} <= named
    assert [name for name in named if not (ROOT / name).exists()] == []


def test_no_stray_file_is_kept():
    files = tracked()
    assert "src/mmtfl/__init__.py" in files
    assert [name for name in files if re.search(HOOKS["stray-files"]["files"], name)] == []


def test_merge_markers_are_seen():
    pattern = re.compile(HOOKS["merge-markers"]["entry"])
    assert pattern.search("<" * 7 + " HEAD") and not pattern.search("=" * 7)
    marked = [
        name
        for name in tracked()
        if name.endswith((".py", ".md", ".toml", ".yaml"))
        and any(map(pattern.search, (ROOT / name).read_text(encoding="utf-8").splitlines()))
    ]
    assert marked == []
