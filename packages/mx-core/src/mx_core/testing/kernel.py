# SPDX-License-Identifier: Apache-2.0
"""Does a kernel compute what the operator's reference says, for every request?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np

from mx_core import _native, dtypes, kernels
from mx_core.context import cpu
from mx_core.errors import MXNetError
from mx_core.kernels import KernelCall, KernelSpec
from mx_core.operator.declaration import Operator
from mx_core.operator.simple import Elementwise
from mx_core.testing.case import RANDOM_KEY, Array, Case, Input, make_case
from mx_core.testing.concurrent import apart, enlarged, together
from mx_core.testing.plan import ADD, INPLACE, NULL, WRITE, run_plan

#: element type -> (relative, absolute) tolerance against the reference in float64
TOLERANCES = {
    "float64": (1e-9, 1e-10),
    "float32": (2e-4, 2e-5),
    "float16": (2e-2, 1e-2),
    "bfloat16": (6e-2, 6e-2),
}
#: shapes an elementwise operator is tried on
SHAPES = ((2, 3), (1,), (), (0, 3), (3, 5, 7), (1031,))
#: threads that run one plan at the same time, how long each does in seconds, and fewest and most runs of each
THREADS, SECONDS, ROUNDS = 4, 0.02, (8, 200)


@dataclass(frozen=True)
class Checked:
    """One comparison that was made."""

    variant: str
    dtype: str
    request: str


def check_kernel(
    op: str | Operator,
    params: Mapping[str, Any] | None = None,
    inputs: Sequence[Input] | None = None,
    *,
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
    declared pairs, in place; with one thread and with three; auxiliary states and mutated inputs
    are compared, other inputs must stay as they are. Several threads run one plan at the same time
    (`check_threads`), for float32 or else the first type. Element types that a kernel declines are
    left out. Without `dtype` every floating-point type is tried (bfloat16 where ml_dtypes is
    installed). Without `inputs` an elementwise operator is tried on several shapes, empty ones too.

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
            for spec in kernels.candidates(case.op, "cpu"):
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
    made = _prepared(spec, case)
    if made is None:
        return []
    expected = _expected(case)
    rtol, atol = _tolerance(case, dtype, tolerance)
    where = f"{case.describe()}: {spec.variant}"

    def compare(found: Sequence[Array], wanted: Sequence[Array], request: str) -> Checked:
        for i, (x, y) in enumerate(zip(found, wanted, strict=True)):
            message = f"{where}, {request}, result {i}"
            y = _as_stored(y, x)
            largest = float(np.abs(y[np.isfinite(y)]).max(initial=1.0)) if to_largest and atol else 1.0
            np.testing.assert_allclose(_wide(x), y, rtol=rtol, atol=atol * largest, err_msg=message)
        return Checked(spec.variant, dtype, request)

    if callable(made):
        results = made(case.context(), [x.copy() for x in case.inputs])
        return [compare([np.asarray(x) for x in results], expected, "function")]
    return _check_plan(made, case, expected, compare)


def check_threads(
    spec: KernelSpec, case: Case, dtype: str, tolerance: Mapping[str, tuple[float, float]] = TOLERANCES
) -> list[Checked]:
    """Several threads run one plan at the same time, and each gets what a run alone gives.

    Each thread has arrays of its own, with other values, as large as the operator takes them (`enlarged`). An
    operator that keeps a state between runs is left out; so is a kernel that declines the case.

    Raises
    ------
    AssertionError  results differ by more than the tolerance: the plan is written to while it runs
    """
    if case.op.keeps_state:
        return []
    tried = [(larger, *_tried(spec, larger, larger is case)) for larger in enlarged(case, dtype)]
    larger, made, results = max(tried, key=lambda one: _distinct(one[2]))
    if not results:
        return []
    cases = [apart(larger, i) for i in range(THREADS)]
    alone = [_results(made, one) for one in cases]
    start = perf_counter()
    _results(made, cases[0])
    least, most = ROUNDS
    rounds = max(least, min(most, int(SECONDS / (perf_counter() - start))))
    runs = together([partial(_results, made, one) for one in cases], rounds)
    rtol, atol = _tolerance(larger, dtype, tolerance)
    equal = partial(_equal, rtol=rtol, atol=atol)
    wrong = sum(
        not equal(found, wanted) for thread, wanted in zip(runs, alone, strict=True) for found in thread
    )
    assert not wrong, (
        f"{larger.describe()}: {spec.variant}: {wrong} of {THREADS * rounds} runs by {THREADS} threads at the same "
        "time give other values than a run alone; a plan must not be written to while it runs"
    )
    return [Checked(spec.variant, dtype, f"{THREADS} threads at the same time")]


def _tried(spec: KernelSpec, case: Case, must_run: bool) -> tuple[Any, list[Array]]:
    """The plan and the results of a run; no results where it declines the case or refuses its values."""
    made = _prepared(spec, case)
    try:
        return made, [] if made is None else _results(made, case)
    except MXNetError:
        if must_run:
            raise
        return None, []


def _distinct(results: Sequence[Array]) -> int:
    """How many different values there are: results that are all zero show no mistake."""
    wide = [_wide(x) for x in results]
    return sum(np.unique(x[np.isfinite(x)]).size for x in wide)


def _equal(found: Sequence[Array], wanted: Sequence[Array], rtol: float, atol: float) -> bool:
    for x, y in zip(found, wanted, strict=True):
        if x.tobytes() == y.tobytes():
            continue
        x, y = _wide(x), _wide(y)
        largest = float(np.abs(y[np.isfinite(y)]).max(initial=0.0))
        if x.shape != y.shape or not np.allclose(x, y, rtol, atol * largest, equal_nan=True):
            return False
    return True


def _prepared(spec: KernelSpec, case: Case) -> Any:
    """The plan or the function of a kernel; None when it declines the signature."""
    call = KernelCall(case.op, case.params, case.specs, case.outputs, cpu(), case.is_train)
    if spec.supports is not None and not spec.supports(call):
        return None
    return _plan(spec.make(call), call)


def _results(made: Any, case: Case) -> list[Array]:
    """Outputs and what is written of the inputs, of one run on new arrays."""
    inputs, outputs = _fresh(case)
    if callable(made):
        return [np.asarray(x) for x in made(case.context(), inputs)]
    _run(made, case, inputs, outputs, [WRITE] * len(outputs))
    return [*outputs, *_written(case, inputs)]


def _tolerance(case: Case, dtype: str, known: Mapping[str, tuple[float, float]]) -> tuple[float, float]:
    """That of the type, or of the least exact type that the operator reads: it cannot compute more exactly."""
    names = [dtype, *(dtypes.name(spec.dtype) for spec in case.specs)]
    found = [known[name] for name in names if name in known]
    return max(found, default=(0.0, 0.0))


def _check_plan(
    plan: Any,
    case: Case,
    expected: list[Array],
    compare: Callable[[Sequence[Array], Sequence[Array], str], Checked],
) -> list[Checked]:
    n = len(case.outputs)
    done = []
    for threads in (1, 3):
        inputs, outputs = _fresh(case)
        _run(plan, case, inputs, outputs, [WRITE] * n, threads)
        found = [*outputs, *_written(case, inputs)]
        done.append(compare(found, expected, f"write, {threads} threads"))
        _unchanged(case, inputs)
    done.append(_check_surroundings(plan, case, expected, compare))
    if case.op.dynamic_output:
        return done
    visible = case.op.num_visible_outputs(case.params)
    for i in range(visible):
        inputs, outputs = _fresh(case)
        untouched = outputs[i].copy()
        _run(plan, case, inputs, outputs, [NULL if j == i else WRITE for j in range(n)])
        wanted = [untouched if j == i else expected[j] for j in range(n)]
        done.append(compare(outputs, wanted, f"null for output {i}"))
    inputs, outputs = _fresh(case)
    for output in outputs[:visible]:
        output[...] = 1
    _run(plan, case, inputs, outputs, [ADD if j < visible else WRITE for j in range(n)])
    wanted = [_wide(expected[j]) + 1 if j < visible else expected[j] for j in range(n)]
    done.append(compare(outputs, wanted, "add"))
    for source, target in case.op.inplace(case.params):
        if case.specs[source] != case.outputs[target] or source >= case.n_inputs:
            continue
        inputs, outputs = _fresh(case)
        outputs[target] = inputs[source]
        _run(plan, case, inputs, outputs, [INPLACE if j == target else WRITE for j in range(n)])
        done.append(compare(outputs, expected[:n], f"output {target} in place of input {source}"))
    return done


def _check_surroundings(
    plan: Any,
    case: Case,
    expected: list[Array],
    compare: Callable[[Sequence[Array], Sequence[Array], str], Checked],
) -> Checked:
    """Arrays that begin one element into a buffer: nothing before or after them is written."""
    inputs, outputs = _fresh(case)
    arrays = [_Inside(x) for x in (*inputs, *outputs)]
    inputs = [x.array for x in arrays[: len(inputs)]]
    outputs = [x.array for x in arrays[len(inputs) :]]
    _run(plan, case, inputs, outputs, [WRITE] * len(outputs))
    for i, array in enumerate(arrays):
        assert array.is_alone(), f"{case.describe()}: a kernel writes outside of tensor {i}"
    return compare([*outputs, *_written(case, inputs)], expected, "write, at odd addresses")


class _Inside:
    """A copy of an array, one element into a buffer full of ones."""

    def __init__(self, array: Array) -> None:
        self._buffer = np.ones(array.size + 2, array.dtype)
        self.array = self._buffer[1:-1].reshape(array.shape)
        self.array[...] = array

    def is_alone(self) -> bool:
        """Whether only the array has been written."""
        return bool(self._buffer[0] == 1 and self._buffer[-1] == 1)


def _plan(made: Any, call: KernelCall) -> Any:
    """What a `make` returned, with a kernel table asked for its plan."""
    name = _native.capsule_name(made)
    assert made is None or name is not None or callable(made), (
        f"make returned a {type(made).__name__}; expected a plan, a kernel table, a function or None"
    )
    if name != kernels.KERNEL_CAPSULE:
        return made
    return _native.prepare_native(
        made,
        call.op.name,
        call.params.attrs_all(),
        [(spec.shape, spec.dtype) for spec in call.inputs],
        [(spec.shape, spec.dtype) for spec in call.outputs],
        (call.context.device_typeid, call.context.device_id),
        call.is_train,
    )


def _run(
    plan: Any,
    case: Case,
    inputs: list[Array],
    outputs: list[Array],
    req: list[int],
    threads: int = 1,
) -> None:
    targets: list[Array | int] = list(outputs)
    if case.op.dynamic_output:
        targets = [spec.dtype for spec in case.outputs]
    outputs[:] = run_plan(
        plan,
        inputs,
        targets,
        req,
        is_train=case.is_train,
        scalars=case.params.scalars,
        random_key=RANDOM_KEY,
        threads=threads,
    )


def _expected(case: Case) -> list[Array]:
    """The reference in float64 where the inputs are floating-point; they may decide what is drawn."""
    if case.op.is_random:
        return case.reference()
    results = case.reference([_wide(x) if _is_floating(x) else x for x in case.inputs])
    stored = [dtypes.numpy_dtype(spec.dtype) for spec in case.outputs]
    if any(y.dtype.kind == "f" and kind.kind in "iub" for y, kind in zip(results, stored, strict=False)):
        return case.reference()  # the type of the input decides that of the output
    return results


def _is_floating(array: Array) -> bool:
    return dtypes.name(dtypes.code(array.dtype)) in TOLERANCES


def _as_stored(wanted: Array, found: Array) -> Array:
    """What was computed in a wider type, with the limits of the type it is stored in."""
    with np.errstate(over="ignore"):
        return _wide(np.asarray(wanted).astype(found.dtype))


def _wide(array: Array) -> Array:
    return array.astype(np.float64) if _is_floating(array) else array


def _fresh(case: Case) -> tuple[list[Array], list[Array]]:
    """Copies of the inputs, and outputs full of a value no kernel should leave."""
    outputs = [np.full(spec.shape, 77, dtypes.numpy_dtype(spec.dtype)) for spec in case.outputs]
    return [x.copy() for x in case.inputs], outputs


def _changed_inputs(case: Case) -> list[int]:
    """Indices in the order in which the reference returns new values."""
    return [*range(case.n_inputs, len(case.inputs)), *case.op.mutated_inputs(case.params)]


def _written(case: Case, inputs: Sequence[Array]) -> list[Array]:
    return [inputs[i] for i in _changed_inputs(case)]


def _unchanged(case: Case, inputs: Sequence[Array]) -> None:
    for i, (now, before) in enumerate(zip(inputs, case.inputs, strict=True)):
        if i not in _changed_inputs(case):
            assert now.tobytes() == before.tobytes(), f"{case.describe()}: input {i} is overwritten"
