# SPDX-License-Identifier: Apache-2.0
import time

import pytest

from mx_core.testing import raises, within


def test_raises_wants_the_kind_and_the_message():
    with raises(ValueError, "thi") as caught:
        raise ValueError("this")
    assert caught[0].args == ("this",)
    with pytest.raises(AssertionError, match="nothing was raised"), raises(ValueError):
        pass
    with pytest.raises(AssertionError, match="does not match"), raises(ValueError, "that"):
        raise ValueError("this")
    with pytest.raises(KeyError), raises(ValueError):
        raise KeyError


def test_within_carries_results_and_errors_and_ends_what_hangs():
    assert within(5)(lambda x: x + 1)(2) == 3
    with pytest.raises(ZeroDivisionError):
        within(5)(lambda: 1 // 0)()
    with pytest.raises(AssertionError, match="did not end within 0.05 s"):
        within(0.05)(lambda: time.sleep(0.5))()
