# SPDX-License-Identifier: Apache-2.0
"""The reference has what programs use, under the names that they use."""

from __future__ import annotations

import pytest
from generate import interface, modules


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("mod", "Module"), ("io", "NDArrayIter"), ("io", "ImageRecordIter"), ("callback", "Speedometer"),
        ("metric", "Accuracy"), ("opt", "SGD"), ("init", "Xavier"), ("nd", "array"), ("sym", "Variable"),
        ("operator", "CustomOp"), ("autograd", "record"), ("recordio", "MXRecordIO"), ("kv", "create"),
        ("gluon.nn", "Dense"), ("gluon.block", "HybridBlock"), ("gluon.parameter", "Parameter"),
        ("gluon.trainer", "Trainer"), ("gluon.loss", "L2Loss"), ("gluon.utils", "split_and_load"),
    ],
)  # fmt: skip
def test_pages_have_public_names(module: str, name: str) -> None:
    assert f":: mx.{module}.{name}\n" in interface.page(module)


def test_pages_leave_out_functions_that_are_generated_from_operators() -> None:
    assert "mx.nd.Convolution\n" not in interface.page("nd")


def test_every_module_has_a_summary() -> None:
    assert [name for name in interface.NAMESPACES if not interface.first_line(name)] == []


def test_what_has_a_public_name_is_documented_once() -> None:
    lines = modules.section("mx_train.module.module", interface.covered())
    assert "   :exclude-members: Module" in lines
    assert any(":py:obj:`mx.mod.Module`" in line for line in lines)
