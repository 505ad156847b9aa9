"""`python -m mmtfl_lab bench`: exit codes, tables or JSON on stdout, progress on stderr."""

import json

import pytest

import mmtfl_lab.bench.run as bench_run
from mmtfl_lab.bench.run import _WARM_UP
from mmtfl_lab.commands import main


@pytest.fixture
def tiny(monkeypatch):
    """Small problems, and the environment as it was."""
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
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


def test_a_folder_gets_results_once_and_again_only_by_force(tiny, capsys, tmp_path):
    folder = tmp_path / "new" / "results"
    assert main([*ONE, "--out", str(folder)]) == 0
    assert {path.name for path in folder.iterdir()} == {"results.json", "results.md", "times.png"}
    assert "`python -m mmtfl_lab bench --problems ragged --libraries mmtfl --repeats 1 --quick`" in (
        folder / "results.md"
    ).read_text(encoding="utf-8")
    (folder / "results.md").write_text("mine", encoding="utf-8")
    with pytest.raises(SystemExit):
        main([*ONE, "--out", str(folder)])
    assert "--force" in capsys.readouterr().err
    assert (folder / "results.md").read_text(encoding="utf-8") == "mine"
    assert main([*ONE, "--out", str(folder), "--force"]) == 0
    assert (folder / "results.md").read_text(encoding="utf-8") != "mine"


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["--problems", "nope"], "invalid choice: 'nope'"),
        (["--repeats", "0"], "must be at least 1, got 0"),
    ],
)
def test_bad_input_is_exit_code_2(words, line, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["bench", *words])
    assert ended.value.code == 2
    assert line in capsys.readouterr().err


def test_a_failed_problem_is_exit_code_1(tiny, capsys, monkeypatch):
    def fail(**sizes):
        raise RuntimeError("out of luck")

    monkeypatch.setattr(bench_run, "search_cost", fail)
    assert main(["bench", "--quick", "--problems", "cv", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["failed"] == {"cv": "RuntimeError: out of luck"}
