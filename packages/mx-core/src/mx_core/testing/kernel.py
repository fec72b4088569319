# SPDX-License-Identifier: Apache-2.0
"""Does a kernel compute what the operator's reference says, for every request?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np

from mx_core import kernels
from mx_core.kernels import KernelCall, KernelSpec
from mx_core.operator.declaration import Operator
from mx_core.operator.simple import Elementwise
from mx_core.testing.case import Array, Case, Input, make_case
from mx_core.testing.kernel_runs import Subject, prepared
from mx_core.testing.kernel_threads import check_threads
from mx_core.testing.kernel_values import TOLERANCES, Checked, as_stored, expected_of, tolerance_of, wide
from mx_core.testing.operator import result_name
from mx_core.testing.plan import ADD, INPLACE, NULL, WRITE

#: shapes an elementwise operator is tried on
SHAPES = ((2, 3), (1,), (), (0, 3), (3, 5, 7), (1031,))


def check_kernel(
    op: str | Operator,
    params: Mapping[str, Any] | None = None,
    inputs: Sequence[Input] | None = None,
    *,
    make: Callable[[KernelCall], Any] | None = None,
    variant: str | None = None,
    dtype: Sequence[str] | None = None,
    low: float = -1.0,
    high: float = 1.0,
    is_train: bool = True,
    tolerance: Mapping[str, tuple[float, float]] = TOLERANCES,
    may_decline: bool = False,
    seed: int = 0,
) -> list[Checked]:
    """Compares the CPU kernels of an operator (or one variant) with its reference.

    Every kernel that accepts the signature runs with requests write, null, add and, for the
    declared pairs, in place; with one thread and with three; on arrays that begin at odd addresses.
    Auxiliary states and mutated inputs are compared, other inputs must stay as they are. Nothing may
    be written outside of an array or of a section of scratch memory, which is full of NaN before a
    run. Runs that overlap must give what each gives alone (`check_threads`), for float32 or else the
    first type. Element types that a kernel declines are left out.

    Parameters
    ----------
    inputs : sequence of arrays, shapes or None (inferred); auxiliary states last
        Without them an elementwise operator is tried on several shapes, empty ones too.
    make : what `mx_register_kernels` would be given, of a kernel that need not be registered
        It alone is checked.
    variant : the name of one kernel; default: all
    dtype : element types; default: every floating-point type (bfloat16 where ml_dtypes is installed)
    low, high : the interval of made-up values
    tolerance : relative and absolute, by element type
    may_decline : whether it is right that no kernel accepts any of the types

    Returns
    -------
    list of Checked
        What was compared.

    Raises
    ------
    AssertionError  a difference; or no kernel accepted any of the element types, unless
                    `may_decline`
    """
    cases: list[Sequence[Input] | None] = [inputs]
    if inputs is None:
        prop = make_case(op, params).op
        assert isinstance(prop, Elementwise), f"[{prop.name}] say the shapes of its inputs"
        count = len(prop.inputs(prop.Param.parse(dict(params or {}))))
        cases = [[shape] * count for shape in SHAPES]
    done: list[Checked] = []
    accepted: dict[str, tuple[KernelSpec, Case, str]] = {}
    dtype = _floating_types() if dtype is None else dtype
    for name in dtype:
        for given in cases:
            case = make_case(op, params, given, dtype=name, low=low, high=high, is_train=is_train, seed=seed)
            for spec in [_given(case.op, make)] if make else kernels.candidates(case.op, "cpu"):
                if spec.variant != "reference" and variant in (None, spec.variant):
                    made = check_variant(spec, case, name, tolerance)
                    done += made
                    if made and (
                        spec.variant not in accepted or name in ("float32", accepted[spec.variant][2])
                    ):
                        accepted[spec.variant] = spec, case, name
    for spec, case, name in accepted.values():
        done += check_threads(spec, case, name, tolerance)
    if not done and not may_decline:
        which = "no kernel" if variant is None else f"no kernel {variant}"
        raise AssertionError(f"[{op}] {which} accepts any of {', '.join(dtype)}")
    return done


def _given(op: Operator, make: Callable[[KernelCall], Any]) -> KernelSpec:
    return KernelSpec(op.name, "cpu", getattr(make, "__name__", "given"), make)


def _floating_types() -> tuple[str, ...]:
    known = tuple(name for name in TOLERANCES if name != "bfloat16")
    return (*known, "bfloat16") if find_spec("ml_dtypes") else known


def check_variant(
    spec: KernelSpec,
    case: Case,
    dtype: str,
    tolerance: Mapping[str, tuple[float, float]] = TOLERANCES,
    *,
    to_largest: bool = False,
) -> list[Checked]:
    """Compares one kernel on one case; empty when it declines the signature.

    With `to_largest` the absolute tolerance grows with the largest element of a result beyond 1: for
    drawn inputs, where sums of large numbers may cancel.
    """
    made = prepared(spec, case)
    if made is None:
        return []
    expected = expected_of(case)
    rtol, atol = tolerance_of(case, dtype, tolerance)
    subject = Subject(made, case, spec.variant)

    def compare(found: Sequence[Array], wanted: Sequence[Array], request: str) -> Checked:
        for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
            message = f"{subject.where}, {request}, result {i}"
            y = as_stored(y, x)
            largest = float(np.abs(y[np.isfinite(y)]).max(initial=1.0)) if to_largest and atol else 1.0
            np.testing.assert_allclose(wide(x), y, rtol=rtol, atol=atol * largest, err_msg=message)
        return Checked(spec.variant, dtype, request)

    if callable(made):
        results = subject.run("function")
        done = [compare(results, expected, "function")]
        _check_second_run(subject, results, compare)
        return done
    return _check_plan(subject, expected, compare)


def _check_second_run(
    subject: Subject,
    first: Sequence[Array],
    compare: Callable[[Sequence[Array], Sequence[Array], str], Checked],
) -> None:
    """A run on other values gives theirs, and leaves the results of the run before as they were."""
    case = subject.case
    other = replace(case, inputs=tuple(x / 2 if x.dtype.kind == "f" else x for x in case.inputs))
    kept = [x.copy() for x in first]
    try:
        expected = expected_of(other)
        second = replace(subject, case=other).run("function, on half of the values")
    except AssertionError:
        raise
    except Exception:  # values outside of the operator's domain
        return
    for i, (now, was, later) in enumerate(zip(first, kept, second, strict=True)):
        same = not now.size or (now.tobytes() == was.tobytes() and not np.may_share_memory(now, later))
        assert same, (
            f"{subject.where}: {result_name(case, i)} of one run is written over by the next: "
            "make an array for each run"
        )
    if all(np.isfinite(wide(y)).all() for y in expected) and not case.op.is_random:
        compare(second, expected, "function, on half of the values")


def _check_plan(
    subject: Subject,
    expected: list[Array],
    compare: Callable[[Sequence[Array], Sequence[Array], str], Checked],
) -> list[Checked]:
    case = subject.case
    n = len(case.outputs)
    done = []
    for threads in (1, 3):
        request = f"write, {threads} threads"
        done.append(compare(subject.run(request, threads=threads), expected, request))
    request = "write, at odd addresses"
    done.append(compare(subject.run(request, shifted=True), expected, request))
    if case.op.dynamic_output:
        return done
    visible = case.op.num_visible_outputs(case.params)
    for i in range(visible):
        request = f"null for output {i}"
        found = subject.run(request, [NULL if j == i else WRITE for j in range(n)], begin=[77] * n)
        wanted = [np.full_like(y, 77) if j == i else y for j, y in enumerate(expected[:n])]
        done.append(compare(found[:n], wanted, request))
    adds = [j < visible for j in range(n)]
    found = subject.run(
        "add", [ADD if add else WRITE for add in adds], begin=[1 if add else 77 for add in adds]
    )
    wanted = [wide(y) + 1 if add else y for add, y in zip(adds, expected[:n], strict=True)]
    done.append(compare(found[:n], wanted, "add"))
    for source, target in case.op.inplace(case.params):
        if case.specs[source] != case.outputs[target] or source >= case.n_inputs:
            continue
        request = f"output {target} in place of input {source}"
        req = [INPLACE if j == target else WRITE for j in range(n)]
        done.append(compare(subject.run(request, req, inplace=(source, target))[:n], expected[:n], request))
    return done
