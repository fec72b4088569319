# SPDX-License-Identifier: Apache-2.0
"""Does an operator's declaration agree with itself: inference, reference, gradient?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from mx_core import dtypes, operators
from mx_core.errors import MXNetError, ShapeError
from mx_core.kernels import TensorSpec
from mx_core.operator import Operator, ReferenceContext
from mx_core.operator.gradient import Entry, Gradient, gradient_of
from mx_core.operator.infer import infer_outputs, infer_shapes, infer_types, tensors_of
from mx_core.testing import progress
from mx_core.testing.case import RANDOM_KEY, Array, Case, Input, make_case
from mx_core.testing.expect import raises

#: element types besides float64 whose results' types are checked
TYPES = ("float32", "float16", "bfloat16") if find_spec("ml_dtypes") else ("float32", "float16")
#: how many elements of an input the numeric gradient perturbs
PROBES = 24
#: the same for an input whose gradient is said to be zero
PROBES_OF_ZERO = 8


def check_operator(
    op: str | Operator,
    params: Mapping[str, Any] | None = None,
    inputs: Sequence[Input] | None = None,
    *,
    low: float = -1.0,
    high: float = 1.0,
    rtol: float = 1e-4,
    atol: float = 1e-6,
    numeric_gradient: bool = True,
    seed: int = 0,
) -> None:
    """Checks a declaration on one example, in float64.

    - the reference's outputs have the inferred shapes and types, for every floating-point type that inference
      accepts, and its inputs stay as they are;
    - inference is stable, and a contradicting shape is a ShapeError;
    - parameters survive their text form;
    - the gradient (evaluated through the references of the operators it consists of) equals the
      numeric gradient of the reference, and inputs that are said to have none do not change the outputs smoothly.
      Losses define their own gradient and are left out.

    Parameters
    ----------
    inputs : sequence of arrays, shapes or None (inferred); auxiliary states last
        Made up uniformly in [low, high); give arrays where a function has kinks or a domain.
        Integer arrays are not differentiated.

    Raises
    ------
    AssertionError  says what disagrees, with the values
    """
    case = make_case(op, params, inputs, low=low, high=high, seed=seed)
    check_inference(case)
    check_parameters(case)
    results = check_reference(case)
    check_repeats(case)
    check_types(case)
    if numeric_gradient and not case.op.is_loss:
        check_gradient(case, results, rtol=rtol, atol=atol, seed=seed)


def check_inference(case: Case) -> None:
    """Inference from complete knowledge adds nothing and refuses a contradiction."""
    shapes = [x.shape for x in case.inputs]
    codes = [dtypes.code(x.dtype) for x in case.inputs]
    outputs = [spec.shape for spec in case.outputs]
    again = infer_shapes(case.op, case.params, shapes, outputs)
    assert again == (tuple(shapes), tuple(outputs)), f"{case.describe()}: inference changes {again}"
    types = infer_types(case.op, case.params, codes, [spec.dtype for spec in case.outputs])
    assert list(types[0]) == codes, f"{case.describe()}: type inference changes {types}"
    called = infer_outputs(case.op, case.params, tensors_of(case.op, case.params, len(shapes)), shapes)
    alone = infer_shapes(case.op, case.params, shapes)[1]
    assert tuple(called) == alone, f"{case.describe()}: a call on arrays infers {called}, a graph {alone}"
    if not outputs:
        return
    wrong = [(*outputs[0], 3), *outputs[1:]]
    with raises(ShapeError):
        infer_shapes(case.op, case.params, shapes, wrong)


def check_parameters(case: Case) -> None:
    """Text form and back gives equal parameters."""
    again = case.op.Param.parse(case.params.attrs_all(), op=case.op.name)
    assert again == case.params, f"{case.describe()}: parameters became {again}"


def check_reference(case: Case) -> list[Array]:
    """The reference gives what inference promises and leaves its inputs alone; its results."""
    before = [x.copy() for x in case.inputs]
    progress.announce(case.describe, "the reference")
    results = case.reference()
    for name, old, new in zip(_names(case), before, case.inputs, strict=True):
        np.testing.assert_array_equal(new, old, f"{case.describe()}: the reference changes {name}")
    extra = len(case.op.aux(case.params)) + len(case.op.mutated_inputs(case.params))
    expected = len(case.outputs) + extra
    assert len(results) == expected, f"{case.describe()}: {len(results)} results, not {expected}"
    for i, (spec, result) in enumerate(zip(declared(case), results, strict=True)):
        shape = result.shape if i < len(case.outputs) and case.op.dynamic_output else spec.shape
        found = (result.shape, result.dtype.name)
        wanted = (shape, dtypes.name(spec.dtype))
        assert found == wanted, f"{case.describe()}: {result_name(case, i)} is {found}, inferred {wanted}"
    return results


def check_repeats(case: Case) -> None:
    """The reference gives the same results of the same inputs, random ones of the same key, too."""
    names = [result_name(case, i) for i in range(len(declared(case)))]
    for name, one, other in zip(names, case.reference(), case.reference(), strict=True):
        assert np.array_equal(one, other, equal_nan=one.dtype.kind in "fc"), (
            f"{case.describe()}: {name} has other values when the reference is called again; random numbers come from "
            "ctx.random_key"
        )


def check_types(case: Case) -> None:
    """The reference gives what inference promises of every other floating-point type that inference accepts."""
    for dtype in TYPES:
        try:
            other = make_case(
                case.op, case.params.attrs(), list(case.inputs), dtype=dtype, is_train=case.is_train
            )
        except MXNetError:  # the operator has not this type
            continue
        check_reference(other)


def declared(case: Case) -> list[TensorSpec]:
    """Shapes and types of all results: outputs, new auxiliary states, new values of mutated inputs."""
    changed = [*range(case.n_inputs, len(case.inputs)), *case.op.mutated_inputs(case.params)]
    return [*case.outputs, *(case.specs[i] for i in changed)]


def result_name(case: Case, i: int) -> str:
    """What a result is called in messages."""
    if i < len(case.outputs):
        return f"output {i} ({case.op.outputs(case.params)[i]})"
    names = [*case.op.aux(case.params), *(_names(case)[j] for j in case.op.mutated_inputs(case.params))]
    return f"the new value of {names[i - len(case.outputs)]}"


def check_gradient(
    case: Case,
    results: Sequence[Array],
    *,
    rtol: float,
    atol: float,
    seed: int = 0,
    kinks: bool = False,
    probes: int = PROBES,
    only_read: bool = False,
) -> int:
    """The declared gradient equals central differences of the reference; how many were compared.

    At most `probes` elements of an input are compared. With `kinks` one is passed over where differences of two step
    sizes tell of no derivative: for drawn inputs, which may lie where there is none. With `only_read` outputs do not
    count whose gradient the declaration does not read, such as statistics that a parameter shows.
    """
    progress.announce(case.describe, "the gradient")
    gradient = gradient_of(case.op, case.params)
    compared = 0
    source = np.random.default_rng(seed + 1)
    visible = case.op.num_visible_outputs(case.params)
    counted = [
        i < visible and (not only_read or Entry("out_grad", i) in gradient.reads)
        for i in range(len(case.outputs))
    ]
    heads = [
        source.uniform(0.5, 1.5, x.shape) if counts else np.zeros(x.shape)
        for counts, x in zip(counted, results, strict=False)
    ]
    compared += check_zeros(case, gradient, heads, source, probes=probes)
    if gradient.is_zero:
        return compared
    declared = evaluate_gradient(case, results, heads)
    for i, name in enumerate(_names(case)[: case.n_inputs]):
        if not np.issubdtype(case.inputs[i].dtype, np.floating) or gradient.grads[i] is None:
            continue
        found = declared[i]
        assert found is not None and found.shape == case.inputs[i].shape, (
            f"{case.describe()}: the gradient of {name} has shape {None if found is None else found.shape}"
        )
        for index in () if has_custom_gradient(case.op, name) else _probes(case.inputs[i], source, probes):
            numeric = _central_difference(case, i, index, heads)
            gap = abs(found[index] - numeric)
            if kinks and not gap <= atol + rtol * abs(numeric):
                closer = _central_difference(case, i, index, heads, 0.3)
                if not abs(closer - numeric) <= 0.1 * gap:
                    continue
            assert gap <= atol + rtol * abs(numeric), (
                f"{case.describe()}: gradient of {name}{list(index)} is {found[index]:.8g}, "
                f"numerically {numeric:.8g}"
            )
            compared += 1
    return compared


def has_custom_gradient(op: Operator, name: str) -> bool:
    """Whether the gradient of an input is on purpose not the derivative of the outputs."""
    named = op.custom_gradient
    return named if isinstance(named, bool) else name in named


def check_zeros(
    case: Case,
    gradient: Gradient,
    heads: Sequence[Array],
    source: np.random.Generator,
    atol: float = 1e-3,
    probes: int = PROBES,
) -> int:
    """No input without a gradient has smooth differences that are not zero, unless the declaration says so.

    Differences are smooth where those of two step sizes agree; a function with steps, such as rounding, has none.

    Returns
    -------
    int
        How many elements were tried.
    """
    op = case.op
    tried = 0
    if op.is_random or op.dynamic_output:
        return tried
    for i, name in enumerate(_names(case)[: case.n_inputs]):
        zero = (
            gradient.grads[i] is None
            and name not in op.without_gradient
            and not has_custom_gradient(op, name)
        )
        if not zero or not np.issubdtype(case.inputs[i].dtype, np.floating):
            continue
        places = _probes(case.inputs[i], source, probes)[:PROBES_OF_ZERO]
        tried += len(places)
        found = [(index, _smooth_difference(case, i, index, heads)) for index in places]
        changing = [(index, value) for index, value in found if value is not None and abs(value) > atol]
        if len(changing) > len(places) // 4:
            index, value = changing[0]
            said = "differentiable = False says" if gradient.is_zero else "the declaration says"
            raise AssertionError(
                f"{case.describe()}: {said} that the gradient of {name} is zero, but numerically it is {value:.4g} at "
                f"{list(index)}; write `backward` or `gradient` for it, or say that it is meant: "
                f"`custom_gradient = True`, or {name!r} in `without_gradient`"
            )
    return tried


def _smooth_difference(case: Case, i: int, index: tuple[int, ...], heads: Sequence[Array]) -> float | None:
    """The derivative by an element; None where there is none."""
    one, other = (_central_difference(case, i, index, heads, times) for times in (1.0, 30.0))
    return one if abs(one - other) <= 0.01 * abs(one) else None


def evaluate_gradient(case: Case, results: Sequence[Array], heads: Sequence[Array]) -> list[Array | None]:
    """Gradients of the inputs through the references of the gradient's operators."""
    gradient = gradient_of(case.op, case.params)
    nodes: list[list[Array]] = []
    for node, values in entry_values(case, gradient, results, heads, nodes):
        context = ReferenceContext(case.is_train, node.params.scalars, RANDOM_KEY, 0)
        made = operators.get(node.op).reference(node.params, values, context)
        nodes.append([np.asarray(x) for x in made])
    return [None if entry is None else _value(entry, case, results, heads, nodes) for entry in gradient.grads]


def entry_values(
    case: Case,
    gradient: Any,
    results: Sequence[Array],
    heads: Sequence[Array],
    nodes: Sequence[Sequence[Array]] = (),
) -> Iterator[tuple[Any, list[Array]]]:
    """The operator applications of a gradient with the arrays they get; `nodes` has the results so far."""
    for node in gradient.nodes:
        yield node, [_value(entry, case, results, heads, nodes) for entry in node.inputs]


def _value(
    entry: Entry,
    case: Case,
    results: Sequence[Array],
    heads: Sequence[Array],
    nodes: Sequence[Sequence[Array]],
) -> Array:
    match entry.kind:
        case "out_grad":
            return heads[entry.index]
        case "input":
            return case.inputs[entry.index]
        case "output":
            return results[entry.index]
        case _:
            return nodes[entry.index][entry.output]


def _central_difference(
    case: Case, i: int, index: tuple[int, ...], heads: Sequence[Array], times: float = 1.0
) -> float:
    step = times * 1e-6 * max(1.0, abs(float(case.inputs[i][index])))
    ends = []
    for sign in (1, -1):
        moved = [x.copy() for x in case.inputs]
        moved[i][index] += sign * step
        ends.append(case.reference(moved))
    # differences first: the sum of all results may be so large that nothing is left of them
    parts = zip(heads, *ends, strict=False)
    total = sum(float((head * (high - low)).sum()) for head, high, low in parts if np.any(head))
    return total / (2 * step)


def _probes(array: Array, source: np.random.Generator, most: int) -> list[tuple[int, ...]]:
    indices = list(np.ndindex(array.shape))
    if len(indices) <= most:
        return indices
    return [indices[i] for i in source.choice(len(indices), most, replace=False)]


def _names(case: Case) -> list[str]:
    return [*case.op.inputs(case.params), *case.op.aux(case.params)]
