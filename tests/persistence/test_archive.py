"""Files of values: what goes in comes out, nothing else is believed, and files are written whole."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mmtfl.persistence.archive import ModelFileError, NotSavable, plain, read_archive, write_archive
from mmtfl.persistence.files import write_whole

ARRAYS = [
    np.array([[1.5, -0.0], [np.nan, np.inf]]),
    np.arange(6, dtype=np.float32).reshape(3, 2).T,
    np.array([True, False]),
    np.array(["a", "été", "\U0001f600"]),
    np.array(["a", None], dtype=object),
    np.array([2**62, -1]),
    np.zeros((0, 3)),
    np.array(7.0),
    np.array([1, 2], dtype=">i4"),
]
CONTENT = {"name": "a \ud800 name \u2028", "numbers": [0.1, -0.0, 1e-310, 2**70], "deep": {"a": (None, True)}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.mmtfl"


# -- there and back ------------------------------------------------------------------------------------------


def test_what_goes_in_comes_out(path):
    write_archive(path, {"content": CONTENT, "arrays": ARRAYS})
    found = read_archive(path)
    assert found["content"] == CONTENT
    assert np.signbit(found["content"]["numbers"][1])
    for array, read in zip(ARRAYS, found["arrays"], strict=True):
        assert (read.dtype, read.shape) == (array.dtype.newbyteorder("="), array.shape)
        np.testing.assert_array_equal(read, array)
        assert read.flags.writeable


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    write_archive(path, [CONTENT, ARRAYS])
    write_archive(tmp_path / "other.mmtfl", [CONTENT, [array.copy(order="F") for array in ARRAYS]])
    assert path.read_bytes() == (tmp_path / "other.mmtfl").read_bytes()
    write_archive(path, np.zeros((1000, 100)))  # the file is the arrays and little more
    assert 800_000 < path.stat().st_size < 800_400


@pytest.mark.parametrize(
    "value", [np.array([1j]), np.array(["2020"], dtype="M8[D]"), np.array([[], 1], dtype=object), object()]
)
def test_what_has_no_place_is_refused_before_a_file_appears(path, value):
    with pytest.raises(NotSavable):
        write_archive(path, [value])
    assert not path.exists()


def test_what_could_not_be_read_is_not_written(path, monkeypatch):
    monkeypatch.setattr("mmtfl.persistence.archive.MOST_VALUES", 100)
    with pytest.raises(ValueError, match="more than a file may hold"):
        write_archive(path, [[]] * 100)
    assert not path.exists()


# -- what is not a sound file --------------------------------------------------------------------------------


def test_every_flipped_bit_and_every_cut_is_told(path):
    write_archive(path, {"a": ("b", np.inf), "c": np.arange(3.0), "d": np.array(["x", "yy"])})
    sound = path.read_bytes()
    spoilt = [sound[:n] for n in range(len(sound))] + [sound + b"\0"]
    for i in range(len(sound)):
        spoilt += [sound[:i] + bytes([sound[i] ^ 1 << bit]) + sound[i + 1 :] for bit in range(8)]
    for data in spoilt:
        path.write_bytes(data)
        with pytest.raises(ModelFileError):
            read_archive(path)


@pytest.mark.parametrize("text", [b"", b"\x89", b"PK\x03\x04", b"a,b\n1,2\n", b"\x80\x04\x95", bytes(1000)])
def test_other_files_are_named_as_such_in_one_line(path, text):
    path.write_bytes(text)
    with pytest.raises(ModelFileError, match=r"some\.mmtfl' is not a model of mmtfl") as info:
        read_archive(path)
    assert "\n" not in str(info.value)


def test_a_missing_file_a_folder_and_a_pipe(tmp_path):
    with pytest.raises(FileNotFoundError):
        read_archive(tmp_path / "absent.mmtfl")
    with pytest.raises(ModelFileError, match="is not a file"):
        read_archive(tmp_path)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ModelFileError, match="is not a file"):
        read_archive(tmp_path / "pipe")


# -- written whole or not at all -----------------------------------------------------------------------------


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyboardInterrupt()])
def test_a_failure_leaves_the_older_file_and_nothing_else(path, error):
    def parts():
        yield b"the first half"
        raise error

    path.write_bytes(b"older")
    with pytest.raises(type(error)):
        write_whole(path, parts())
    assert path.read_bytes() == b"older"
    assert os.listdir(path.parent) == [path.name]


def test_what_a_killed_process_left_is_removed_an_hour_later(path):
    code = """
import os, signal, sys
from mmtfl.persistence.files import write_whole

def parts():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(sys.argv[1], parts())
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    (left,) = path.parent.iterdir()
    assert left.suffix == ".part"
    write_whole(path, [b"a"])
    assert left.exists()  # it might be that of a process at work
    os.utime(left, (0, left.stat().st_mtime - 3700.0))
    write_whole(path, [b"b"])
    assert os.listdir(path.parent) == [path.name] and path.read_bytes() == b"b"


def test_of_two_first_writers_one_wins(path):
    """Both have found no file and written all; the second to give it its name is told."""

    def parts():
        yield b"second"
        write_whole(path, [b"first"], overwrite=False)

    def late():
        yield b"second"
        path.write_bytes(b"first")

    with pytest.raises(FileExistsError):
        write_whole(path, parts(), overwrite=False)
    assert path.read_bytes() == b"first"

    path.unlink()
    with pytest.MonkeyPatch.context() as patch:  # as if the first came after the last check
        patch.setattr("mmtfl.persistence.files.check_target", lambda place, overwrite=True: Path(place))
        with pytest.raises(FileExistsError):
            write_whole(path, late(), overwrite=False)
    assert path.read_bytes() == b"first" and os.listdir(path.parent) == [path.name]


def test_an_older_file_is_kept_on_request(path):
    path.write_bytes(b"older")
    with pytest.raises(FileExistsError, match="overwrite=True"):
        write_whole(path, [b"newer"], overwrite=False)
    assert path.read_bytes() == b"older"
    write_whole(path, [b"newer"])
    assert path.read_bytes() == b"newer"


def test_devices_and_folders_are_not_replaced(tmp_path):
    with pytest.raises(OSError, match="not an ordinary file"):
        write_whole("/dev/null", [b"x"])
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        write_whole(tmp_path, [b"x"])
    with pytest.raises(FileNotFoundError, match="does not exist: create it"):
        write_whole(tmp_path / "absent" / "x", [b"x"])


def test_links_and_permissions_stay(path, tmp_path):
    path.write_bytes(b"older")
    path.chmod(0o600)
    link = tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, [b"newer"])
    assert link.is_symlink()
    assert path.read_bytes() == b"newer"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    write_whole(tmp_path / "new", [b"x"])  # one that is new has the permissions of any new file
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_plain_knows_what_json_does_not():
    found = plain([np.float64(1.5), np.inf, -np.inf, np.nan, (np.int64(2),), {1: np.array([True])}])
    assert found == [1.5, "inf", "-inf", None, [2], {"1": [True]}]
