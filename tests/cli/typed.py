"""Commands as they are typed: their words, what they print, and the line in which one is refused."""

import io
from contextlib import redirect_stderr, redirect_stdout

from mmtfl.cli.main import main


def typed(words):
    """Words as the shell gives them: text is cut at its spaces, paths and numbers are words of their own."""
    return [part for word in words for part in (word.split() if isinstance(word, str) else [str(word)])]


def run(words, capsys=None, code=0):
    """Type a command; give what it printed, or with no `capsys` print nothing."""
    if capsys is not None:
        assert main(typed(words)) == code
        return capsys.readouterr()
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        assert main(typed(words)) == code
    return None


def refusal(words, capsys, code=2):
    """The one line of a command that is refused, after its notes."""
    out, err = run(words, capsys, code)
    *notes, line = err.strip().splitlines()
    assert out == "" and all(note.startswith("note: ") for note in notes), err
    assert line.startswith("mmtfl: ")
    return line
