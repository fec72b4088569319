# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

from pathlib import Path

from mx_core import kernels, operators, plugins
from mx_core.context import cpu
from mx_core.kernels import TensorSpec


def record() -> plugins.PluginRecord:
    return next(r for r in plugins.plugins() if r.name == "example_operators")


def test_it_is_loaded_and_brings_what_it_says() -> None:
    assert record().state == "loaded", record().error
    brought = {name for kind, name in record().contributions if kind == "operators"}
    assert brought >= {"quadratic", "pseudo_huber", "moving_average"}


def test_the_native_kernel_is_chosen_and_declines_what_it_cannot() -> None:
    op = operators.get("moving_average")
    p = op.Param.parse({"window": 2}, op=op.name)

    def variant(dtype: int) -> str:
        return kernels.prepare(op, p, [TensorSpec((4,), dtype)], [TensorSpec((3,), dtype)], cpu()).variant

    assert [variant(0), variant(1), variant(2)] == ["example_native", "example_native", "reference"]


def test_native_part_knows_nothing_but_public_headers() -> None:
    sources = Path(__file__).parents[1] / "csrc"
    included = {
        line.split('"')[1]
        for path in sources.iterdir()
        for line in path.read_text().splitlines()
        if line.startswith('#include "')
    }
    own = {path.name for path in sources.iterdir()}
    assert included - own == {"mx_core/abi.h", "mx_core/kernel.h", "mx_core/plan.hpp"}
