"""Which build of the core is imported, and what is said where there is none."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mmtfl.core

CORE = Path(mmtfl.core.__file__).parent
SHOW = "import mmtfl.core.labels as module; print(module.__file__)"


def run(code, folder=None, **environment):
    command = [sys.executable, "-c", code]
    return subprocess.run(
        command, env=os.environ | environment, cwd=folder, capture_output=True, text=True, check=False
    )


def test_the_portable_build_can_be_asked_for():
    assert Path(run(SHOW, MMTFL_CORE="baseline").stdout).parent.name == "baseline"


@pytest.mark.skipif(not (CORE / "avx2").is_dir(), reason="built for another kind of processor")
def test_without_the_instructions_the_portable_build_is_taken():
    numpy_core = "numpy._core" if "numpy._core" in sys.modules else "numpy.core"
    off = f"from {numpy_core}._multiarray_umath import __cpu_features__ as features; features['AVX2'] = False"
    assert Path(run(f"{off}\n{SHOW}", MMTFL_CORE="").stdout).parent.name == "baseline"


def test_a_build_that_does_not_exist_is_refused_with_a_remedy():
    for code in (SHOW, "from mmtfl import MMTFLRegressor"):
        said = run(code, MMTFL_CORE="nowhere").stderr
        assert "ImportError" in said
        assert "make build" in said


def test_a_source_that_is_not_compiled_is_named(tmp_path):
    shutil.copytree(CORE, tmp_path / "core")
    (tmp_path / "core" / "forgotten.pyx").touch()
    said = run("import core", folder=tmp_path).stderr
    assert "has no forgotten for this Python" in said
    assert "make build" in said
