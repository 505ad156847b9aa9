"""The container of saved models: what goes in comes out, and nothing else is believed."""

import hashlib
import json
import os
import stat
import struct
import subprocess
import sys
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mmtfl.persistence.archive import (
    FORMAT_VERSION,
    MAGIC,
    ModelFileError,
    can_store,
    read_archive,
    write_archive,
)
from mmtfl.persistence.files import write_whole

HEAD = struct.Struct("<8sIIQ")

ARRAYS = [
    np.array([[1.5, -0.0], [np.nan, np.inf]]),
    np.arange(6, dtype=np.float32).reshape(3, 2).T,
    np.array([True, False]),
    np.array(["a", "été", "\U0001f600"]),
    np.array([b"x", b"yz"]),
    np.array([2**62, -1]),
    np.zeros((0, 3)),
    np.array(7.0),
    np.array([1, 2], dtype=">i4"),
]
CONTENT = {"name": "a \ud800 name \u2028", "numbers": [0.1, -0.0, 1e-310, 2**70], "deep": {"a": [None, True]}}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "some.mmtfl"


def forged(path, header, payload=b"", version=FORMAT_VERSION, n_text=None, reserved=0):
    """A file with any header at all, and the right checksum."""
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    body = HEAD.pack(MAGIC, version, reserved, len(text) if n_text is None else n_text) + text + payload
    path.write_bytes(body + hashlib.sha256(body).digest())
    return path


def entry(dtype="<f8", shape=(1,)):
    return {"arrays": [{"dtype": dtype, "shape": list(shape)}], "content": None}


# -- there and back ------------------------------------------------------------------------------------------


def test_what_goes_in_comes_out(path):
    write_archive(path, CONTENT, ARRAYS)
    content, arrays = read_archive(path)
    assert content == CONTENT
    assert np.signbit(content["numbers"][1])
    assert len(arrays) == len(ARRAYS)
    for array, read in zip(ARRAYS, arrays, strict=True):
        assert (read.dtype, read.shape) == (array.dtype.newbyteorder("="), array.shape)
        assert read.tobytes() == array.astype(read.dtype).tobytes()
        assert read.flags.writeable


def test_the_file_is_the_arrays_and_little_more(path):
    write_archive(path, None, [np.zeros((1000, 100))])
    assert 800_000 < path.stat().st_size < 800_200


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    write_archive(path, CONTENT, ARRAYS)
    write_archive(tmp_path / "other.mmtfl", CONTENT, [array.copy(order="F") for array in ARRAYS])
    assert path.read_bytes() == (tmp_path / "other.mmtfl").read_bytes()


@pytest.mark.parametrize("array", [np.array([None]), np.array([1j]), np.array(["2020"], dtype="M8[D]")])
def test_other_arrays_are_refused_before_a_file_appears(path, array):
    assert not can_store(array)
    with pytest.raises(TypeError, match="cannot be saved"):
        write_archive(path, None, [array])
    assert not path.exists()


# -- what is not a sound file --------------------------------------------------------------------------------


def test_every_flipped_bit_and_every_cut_is_told(path):
    write_archive(path, {"a": "b"}, [np.arange(3.0), np.array(["x", "yy"])])
    sound = path.read_bytes()
    assert 150 < len(sound) < 400
    for i in range(len(sound)):
        for bit in range(8):
            changed = bytearray(sound)
            changed[i] ^= 1 << bit
            path.write_bytes(changed)
            with pytest.raises(ModelFileError):
                read_archive(path)
    for n in range(len(sound)):
        path.write_bytes(sound[:n])
        with pytest.raises(ModelFileError):
            read_archive(path)
    path.write_bytes(sound + b"\0")
    with pytest.raises(ModelFileError, match="cut short or changed"):
        read_archive(path)


@pytest.mark.parametrize("text", [b"", b"\x89", b"PK\x03\x04", b"a,b\n1,2\n", b"\x80\x04\x95", bytes(1000)])
def test_other_files_are_named_as_such_in_one_line(path, text):
    path.write_bytes(text)
    with pytest.raises(
        ModelFileError, match=r"some\.mmtfl' is not a model of mmtfl: give a file written"
    ) as info:
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


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 2**32 - 1])
def test_newer_versions_are_refused_with_the_remedy(path, version):
    forged(path, {"some": "thing new"}, b"of its own", version=version)
    with pytest.raises(ModelFileError, match=rf"has format {version}.*upgrade mmtfl"):
        read_archive(path)


def test_a_version_that_never_was(path):
    with pytest.raises(ModelFileError, match="format 0, which no version"):
        read_archive(forged(path, entry(shape=(0,)), version=0))


def test_a_resealed_file_that_is_sound_is_read(path):
    """The forging helper itself makes sound files, so that what follows fails for the right reason."""
    content, (array,) = read_archive(forged(path, entry(), np.array([4.0]).tobytes()))
    assert content is None
    assert array.tolist() == [4.0]


@pytest.mark.parametrize(
    ("header", "payload"),
    [
        (entry(shape=(10**12,)), bytes(8)),  # a claim of terabytes
        (entry(shape=(2**32, 2**32)), bytes(8)),  # overflows 64 bits to zero
        (entry(shape=(2**61,)), b""),  # 8 times this is zero in 64 bits
        (entry(shape=(0, 2**62)), b""),
        (entry(shape=(0, 10**30)), b""),
        (entry(shape=(-1,)), bytes(8)),
        (entry(shape=(-1, -1)), bytes(8)),
        (entry(shape=(1.0,)), bytes(8)),
        (entry(shape=(True,)), bytes(8)),
        (entry(shape=("1",)), bytes(8)),
        (entry(shape=(1,) * 40), bytes(8)),
        ({"arrays": [{"dtype": "<f8", "shape": 1}], "content": None}, bytes(8)),
        (entry("|O", (1,)), bytes(8)),
        (entry("O", (1,)), bytes(8)),
        (entry(">f8", (1,)), bytes(8)),
        (entry("f8", (1,)), bytes(8)),
        (entry("<f16", (1,)), bytes(16)),
        (entry("<M8[ns]", (1,)), bytes(8)),
        (entry("<f8,<f8", (1,)), bytes(16)),
        (entry("<U0", (3,)), b""),
        (entry("<U999999999", (0,)), b""),
        (entry("|V8", (1,)), bytes(8)),
        (entry(["<f8"], (1,)), bytes(8)),
        (entry(None, (1,)), bytes(8)),
        (entry("<U1", (1,)), b"\xff\xff\xff\xff"),  # not a character
        (entry("|b1", (1,)), b"\x02"),
        (entry(shape=(2,)), bytes(8)),  # too few bytes
        (entry(shape=(0,)), bytes(8)),  # too many
        ({"arrays": [entry()["arrays"][0]] * 2, "content": None}, bytes(8)),
        ({"arrays": [{"dtype": "<f8"}], "content": None}, b""),
        ({"arrays": [{"dtype": "<f8", "shape": [1], "offset": 0}], "content": None}, bytes(8)),
        ({"arrays": [[]], "content": None}, b""),
        ({"arrays": {}, "content": None}, b""),
        ({"arrays": []}, b""),
        ({"arrays": [], "content": None, "more": 1}, b""),
        ([], b""),
        (b"", b""),
        (b"{", b""),
        (b'{"arrays": [], "content": NaN}', b""),
        (b'{"arrays": [], "content": Infinity}', b""),
        (b'{"arrays": [], "content": 1, "content": 2}', b""),
        (b'{"arrays": [], "content": ' + b"[" * 200_000 + b"]" * 200_000 + b"}", b""),
        (b'{"arrays": [], "content": ' + b'{"a":' * 200_000 + b"1" + b"}" * 200_000 + b"}", b""),
        (b'{"arrays": [], "content": ' + b"9" * 100_000 + b"}", b""),
        (b'{"arrays": [], "content": ' + b"9" * 400 + b"}", b""),
        (b'{"arrays": [], "content": -1e400}', b""),
        ('{"arrays": [], "content": "é"}'.encode(), b""),
        (b"\xff\xfe", b""),
    ],
)
def test_forged_headers_are_refused_whatever_their_checksum(path, header, payload):
    forged(path, header, payload)
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="not a sound model file"):
            read_archive(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # sizes in the file are not believed: what is allocated goes with the size of the file
    assert most < 500_000 + 60 * path.stat().st_size


@pytest.mark.parametrize("bomb", [b"[],", b'{"a":{}},', b"0,", b'"",'])
def test_a_bomb_of_json_is_refused_before_it_is_parsed(bomb, path):
    n = 60_000_000 // len(bomb)
    forged(path, b'{"arrays": [], "content": [' + bomb * n + b"0]}")
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match="more names and values than any model"):
            read_archive(path)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert most < 2 * path.stat().st_size


def test_what_could_not_be_read_is_not_written(path):
    with pytest.raises(ValueError, match="more than a file may hold"):
        write_archive(path, [[]] * (1 << 20), [])
    assert not path.exists()


@pytest.mark.parametrize("n_text", [2**63, 2**64 - 1, 10**6])
def test_a_forged_length_of_the_header_is_refused(path, n_text):
    with pytest.raises(ModelFileError, match="cut short or changed"):
        read_archive(forged(path, entry(), bytes(8), n_text=n_text))


# -- written whole or not at all -----------------------------------------------------------------------------


def broken_disk():
    yield b"the first half"
    raise OSError(28, "No space left on device")


def test_a_failure_leaves_the_older_file_and_nothing_else(path):
    path.write_bytes(b"older")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, broken_disk())
    assert path.read_bytes() == b"older"
    assert os.listdir(path.parent) == [path.name]


def test_what_a_killed_process_left_is_removed_by_the_next_writer(path):
    pytest.importorskip("fcntl")
    code = """
import os, signal, sys
from mmtfl.persistence.files import write_whole

def parts():
    yield b"half"
    os.kill(os.getpid(), signal.SIGKILL)

write_whole(sys.argv[1], parts())
"""
    subprocess.run([sys.executable, "-c", code, str(path)], check=False)
    left = os.listdir(path.parent)
    assert len(left) == 1 and left[0].endswith(".part")
    seen = []

    def parts():
        yield b"a"
        write_whole(path.with_name("other"), [b"b"])  # while this one is at work
        seen.extend(os.listdir(path.parent))

    write_whole(path, parts())
    assert left[0] not in seen and sum(name.endswith(".part") for name in seen) == 1
    assert sorted(os.listdir(path.parent)) == sorted([path.name, "other"])


def test_of_two_first_writers_one_wins(path):
    """Both have found no file and written all; the second to give it its name is told."""

    def parts():
        yield b"second"
        write_whole(path, [b"first"], overwrite=False)

    with pytest.raises(FileExistsError):
        write_whole(path, parts(), overwrite=False)
    assert path.read_bytes() == b"first"

    path.unlink()
    with pytest.MonkeyPatch.context() as patch:  # as if the first came after the last check
        patch.setattr("mmtfl.persistence.files.check_target", lambda place, overwrite=True: Path(place))
        with pytest.raises(FileExistsError):
            _first_wins(path)
    assert path.read_bytes() == b"first" and os.listdir(path.parent) == [path.name]


def _first_wins(path):
    def parts():
        yield b"second"
        path.write_bytes(b"first")

    write_whole(path, parts(), overwrite=False)


def test_an_interrupt_leaves_nothing(path):
    def interrupted():
        yield b"a"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_whole(path, interrupted())
    assert os.listdir(path.parent) == []


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


def test_a_new_file_has_the_permissions_of_any_new_file(path, tmp_path):
    write_whole(path, [b"x"])
    (tmp_path / "plain").write_bytes(b"x")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)
