# SPDX-License-Identifier: Apache-2.0
import numpy as np
import pytest

from mx_core.errors import AbiError, DTypeError
from mx_core.testing import run_plan


def test_what_is_no_plan_is_refused():
    for wrong in (None, 3, object()):
        with pytest.raises(
            AbiError, match=rf"expected a capsule mx.plan.v1 .* an object of type {type(wrong).__name__}$"
        ):
            run_plan(wrong, [], [])


def test_strided_inputs_are_refused_with_their_strides():
    with pytest.raises(DTypeError, match=r"\(16,\)"):
        run_plan(None, [np.zeros(4)[::2]], [])
