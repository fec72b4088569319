# SPDX-License-Identifier: Apache-2.0
"""Checks of the hooks that are called at events: what they answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from mx_core import kernels, operators, plugins
from mx_core.context import cpu
from mx_core.errors import MXNetError
from mx_core.operator.simple import Elementwise
from mx_core.testing.checks.result import Result, attempt
from mx_core.testing.examples import example

if TYPE_CHECKING:
    import pluggy

#: hooks that are called at events, and why those that are not called here are not
_UNCALLED = {
    "mx_read_graph": "it needs a recorded graph; autograd.get_symbol calls it",
    "mx_fork": "it is called around forks; what it raises is printed then",
    "mx_shutdown": "it is called when the process ends; what it raises is printed then",
}


def check_hook(plugin: str, hook: str) -> Iterator[Result]:
    """What a hook answers, if it can be called for a check."""
    subject = f"hook {hook!r}"
    implementation = plugins.implementations(plugin)[hook]
    if hook in ("mx_diagnostics", "mx_stub_modules"):
        yield attempt(subject, "it gives a mapping of texts", partial(_check_mapping, implementation))
    elif hook == "mx_select_kernel":
        what = "it answers with a candidate or None"
        call = _call()
        if call is None:
            yield Result(subject, what, None, "there is no elementwise operator to ask it about")
        else:
            yield attempt(subject, what, partial(_check_selection, implementation, call))
    else:
        yield Result(subject, "answer", None, _UNCALLED.get(hook, "there is no check of this hook"))


def _check_mapping(implementation: pluggy.HookImpl) -> None:
    answer: object = implementation.function()
    assert isinstance(answer, Mapping), f"expected a mapping of texts, got {answer!r}"
    for key, value in answer.items():
        assert isinstance(key, str) and isinstance(value, str), f"expected texts, got {key!r}: {value!r}"


def _check_selection(implementation: pluggy.HookImpl, call: kernels.KernelCall) -> None:
    candidates = kernels.candidates(call.op, "cpu")
    given = {"op": call.op, "call": call, "candidates": candidates}
    try:
        answer: object = implementation.function(*(given[name] for name in implementation.argnames))
    except MXNetError:  # it refuses the call
        return
    assert answer is None or answer in candidates, (
        f"expected one of the candidates or None, got {answer!r:.80}"
    )


def _call() -> kernels.KernelCall | None:
    """A call of an operator that needs no explanation."""
    for name in operators.names():
        op = operators.get(name)
        case = example(op) if isinstance(op, Elementwise) and not name.startswith("_") else None
        if case is not None:
            return kernels.KernelCall(op, case.params, case.specs, case.outputs, cpu())
    return None
