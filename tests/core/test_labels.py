"""Labels are found where they are, and where they are not."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mmtfl.core.labels import positions

WORDS = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2**32 - 1)), max_size=40, unique=True)


def as_words(labels):
    return np.array(labels, dtype=np.uint32).reshape(len(labels), 2)


@given(WORDS, WORDS)
def test_every_label_has_the_position_of_its_equal_or_none(known, others):
    labels = known[::-1] + others + known
    expected = [known.index(label) if label in known else len(known) for label in labels]
    assert positions(as_words(labels), as_words(known)).tolist() == expected


def test_many_numbers_in_order_are_found():
    known = np.arange(5000).view(np.uint32).reshape(-1, 2)
    assert np.array_equal(positions(known[::-1].copy(), known), np.arange(5000)[::-1])
