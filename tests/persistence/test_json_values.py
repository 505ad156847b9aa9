"""Values as strict JSON."""

import numpy as np

from mmtfl.persistence.json_values import plain


def test_plain_knows_what_json_does_not():
    found = plain([np.float64(1.5), np.inf, -np.inf, np.nan, (np.int64(2),), {1: np.array([True])}])
    assert found == [1.5, "inf", "-inf", None, [2], {"1": [True]}]
