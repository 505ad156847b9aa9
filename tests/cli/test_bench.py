"""The command `mmtfl bench`: exit codes, one clear line, tables or JSON on stdout, progress on stderr."""

import json
import subprocess
import sys

import pytest

import mmtfl_lab.bench.run as bench_run
from mmtfl.cli.main import main
from mmtfl_lab.bench.run import _WARM_UP


@pytest.fixture
def tiny(monkeypatch):
    """Small problems, and the environment as it was."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
        monkeypatch.setenv(variable, "1")
    monkeypatch.setattr(bench_run, "QUICK", {**_WARM_UP, "search": {}})


ONE = ["bench", "--quick", "--problems", "ragged", "--libraries", "mmtfl", "--repeats", "1"]


def test_tables_go_to_stdout_and_progress_to_stderr(tiny, capsys):
    assert main(ONE) == 0
    out, err = capsys.readouterr()
    assert "ragged (2,2), 0.1 of alpha_max" in out
    assert "One pass:" in out
    assert "\x1b" not in out  # plain where it is not a terminal
    assert "warming up" in err
    assert "warming up" not in out


def test_json_alone_on_stdout(tiny, capsys):
    assert main([*ONE, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [case["key"] for case in found["cases"]] == ["ragged 0.3", "ragged 0.1", "ragged 0.05"]
    assert found["problems"] == ["ragged"]


def test_a_folder_gets_results_once_and_again_only_by_force(tiny, capsys, tmp_path):
    folder = tmp_path / "new" / "results"
    assert main([*ONE, "--out", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {"results.json", "results.md", "times.png"}
    assert "`mmtfl bench --problems ragged --libraries mmtfl --repeats 1 --quick`" in (
        folder / "results.md"
    ).read_text(encoding="utf-8")
    (folder / "results.md").write_text("mine", encoding="utf-8")
    assert main([*ONE, "--out", str(folder)]) == 2
    assert "--force" in capsys.readouterr().err
    assert (folder / "results.md").read_text(encoding="utf-8") == "mine"
    assert main([*ONE, "--out", str(folder), "--force"]) == 0
    assert (folder / "results.md").read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("tokens", "line"),
    [
        (["bench", "--problems", "nope"], "There is no problem 'nope': use ragged, wide"),
        (["bench", "--libraries", "mmtfl", "nope"], "There is no library 'nope': use mmtfl"),
        (["bench", "--repeats", "0"], "--repeats must be at least 1"),
        (["bench", "--repeats", "many"], "--repeats"),
        (["bench", "--nope"], "--nope"),
        (["nope"], "nope"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(tokens, line, capsys, tiny):
    assert main(tokens) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.strip().splitlines()) == 1
    assert err.startswith("mmtfl: ")
    assert line in err


def test_a_file_is_not_a_folder(tmp_path, capsys, tiny):
    file = tmp_path / "results"
    file.write_text("mine", encoding="utf-8")
    assert main(["bench", "--out", str(file)]) == 2
    assert "is a file: name a folder" in capsys.readouterr().err
    assert main(["bench", "--out", str(file / "below")]) == 2
    assert len(capsys.readouterr().err.strip().splitlines()) == 1


def test_a_failed_problem_is_exit_code_1(tiny, capsys, monkeypatch):
    def fail(**sizes):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(bench_run, "search_cost", fail)
    assert main(["bench", "--quick", "--problems", "cv", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == {"cv": "RuntimeError: out of luck"}


@pytest.mark.parametrize("tokens", [["--help"], ["bench", "--help"], ["--version"], []])
def test_help_and_version_are_exit_code_0(tokens, capsys):
    assert main(tokens) == 0
    assert capsys.readouterr().out


def test_help_loads_no_compiler_and_no_plots():
    code = (
        "import sys; from mmtfl.cli.main import main; main(['--help']); main(['bench', '--help']);"
        "print(*sorted(set(sys.modules) & {'numba', 'matplotlib', 'mmtfl_lab.bench.run'}), 'end')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "end"


def test_a_missing_extra_is_named(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "cyclopts", None)
    assert main(["--help"]) == 2
    assert "pip install '.[cli]'" in capsys.readouterr().err
