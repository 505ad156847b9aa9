"""The cache of compiled code: damaged it is written anew, and where it cannot be written there is none."""

import ast
import errno
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mmtfl.kernels import compiling
from mmtfl.kernels.compiling import KeptOnDisk, compiled


class Broken:
    """A cache whose files fail in one way."""

    def __init__(self, error):
        self.error, self.n_flushed = error, 0

    def load_overload(self, *which):
        raise self.error

    save_overload = load_overload

    def flush(self):
        self.n_flushed += 1
        if isinstance(self.error, OSError):
            raise self.error


@pytest.fixture(autouse=True)
def _nothing_told(monkeypatch):
    monkeypatch.setattr(compiling, "_told", set())


def test_a_damaged_file_is_written_anew():
    cache = Broken(EOFError("Ran out of input"))
    assert KeptOnDisk(cache).load_overload("signature") is None
    KeptOnDisk(cache).save_overload("signature", "code")
    assert cache.n_flushed == 2


def test_a_full_disk_is_told_once():
    cache = KeptOnDisk(Broken(OSError(errno.ENOSPC, "No space left on device")))
    with pytest.warns(UserWarning, match=r"cannot be kept \(No space left on device\)"):
        assert cache.load_overload("signature") is None
    cache.save_overload("signature", "code")  # a second warning would be an error here


def test_code_that_a_signal_kept_from_the_cache_is_used_all_the_same():
    cache = Broken(RuntimeError("no compiled object yet for <Library 'sweeps'>"))
    KeptOnDisk(cache).save_overload("signature", "code")  # no error, and
    assert cache.n_flushed == 0  # what is there is not wrong


def test_without_a_folder_functions_are_compiled_all_the_same(monkeypatch):
    def no_folder(function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(compiling, "FunctionCache", no_folder)
    with pytest.warns(UserWarning, match="Set NUMBA_CACHE_DIR"):
        double = compiled()(lambda x: 2.0 * x)
    assert double(4.0) == 8.0


def test_the_arithmetic_of_a_function_is_its_own_whoever_calls_it_first():
    x = np.random.default_rng(0).normal(size=10_000)
    expected = 0.0
    for number in x.tolist():
        expected += number

    @compiled()
    def in_order(x):
        total = 0.0
        for i in range(x.size):
            total += x[i]
        return total

    @compiled(fastmath={"reassoc"})
    def fast_caller(x):
        return in_order(x)

    assert fast_caller(x) == expected
    assert in_order(x) == expected


@pytest.mark.parametrize("path", sorted(Path(compiling.__file__).parent.glob("*.py")), ids=lambda p: p.stem)
def test_kernels_have_products_and_no_whole_powers(path):
    # a constant power is compiled once in a process, with the arithmetic of the first function that has one
    powers = [
        node.lineno
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and isinstance(node.right, ast.Constant)
        and isinstance(node.right.value, int)
    ]
    assert powers == []


def test_a_kernel_is_compiled_again_when_one_that_it_calls_has_changed(tmp_path):
    inner, outer = tmp_path / "inner_kernel.py", tmp_path / "outer_kernel.py"
    text = "from mmtfl.kernels.compiling import compiled\n@compiled()\ndef inner(x):\n    return {} * x\n"
    outer.write_text(
        "from inner_kernel import inner\nfrom mmtfl.kernels.compiling import compiled\n"
        "@compiled()\ndef outer(x):\n    return inner(x)\n"
    )
    call = (
        "from pathlib import Path; from mmtfl.kernels import compiling as c; c._FOLDER = Path(sys.path[0]); "
        "from outer_kernel import outer; print(outer(1.0), sum(outer.stats.cache_hits.values()))"
    )

    def run(factor):
        if factor is not None:
            inner.write_text(text.format(factor))
        command = [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(tmp_path)!r}); {call}"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()

    assert run(2.0) == ["2.0", "0"]
    assert run(None) == ["2.0", "1"]  # kept on disk
    assert run(3.0) == ["3.0", "0"]
