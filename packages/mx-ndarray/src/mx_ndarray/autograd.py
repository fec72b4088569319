# SPDX-License-Identifier: Apache-2.0
"""Recording operators and computing gradients.

Whether a thread records and trains is state of that thread. The tape keeps of each operator only
what its gradient reads.

Threads: each has a state of its own, and leaves the blocks that it entered. Any thread may differentiate
what another one recorded. Of several that differentiate losses over one trunk without `retain_graph`, one
gets its gradient and the others an MXNetError that says that part of the graph was freed; with it, each
computes its gradient.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, cast

from mx_core.errors import ArgumentError, MXNetError
from mx_ndarray import _core
from mx_ndarray.ndarray import NDArray
from mx_ndarray.operator_functions import function

_REQUESTS = {"null": 0, "write": 1, "inplace": 1, "add": 3}


def record(train_mode: bool = True) -> _core.Scope:
    """A block in which operators on arrays with gradients are recorded."""
    return _core.Scope(True, train_mode, None)


def pause(train_mode: bool = False) -> _core.Scope:
    """A block inside `record` in which nothing is recorded."""
    return _core.Scope(False, train_mode, None)


def train_mode() -> _core.Scope:
    """A block in which operators behave as in training (dropout, batch normalisation)."""
    return _core.Scope(None, True, None)


def predict_mode() -> _core.Scope:
    """A block in which operators behave as in inference."""
    return _core.Scope(None, False, None)


def is_recording() -> bool:
    """Whether this thread records."""
    return _core.is_recording()


def is_training() -> bool:
    """Whether operators of this thread behave as in training."""
    return _core.is_training()


def set_recording(is_recording: bool) -> bool:
    """Turns recording on or off; returns the previous state."""
    return _core.set_recording(bool(is_recording))


def set_training(train_mode: bool) -> bool:
    """Turns training behaviour on or off; returns the previous state."""
    return _core.set_training(bool(train_mode))


def _request(grad_req: str) -> int:
    if grad_req not in _REQUESTS:
        raise ArgumentError(f"[autograd] grad_req: expected one of {', '.join(_REQUESTS)}, got {grad_req!r}")
    return _REQUESTS[grad_req]


def _listed(value: NDArray | Sequence[NDArray], name: str) -> list[NDArray]:
    if isinstance(value, NDArray):
        return [value]
    if not isinstance(value, Iterable):
        raise TypeError(f"[autograd] {name}: expected an NDArray or several, got {value!r}")
    return list(value)


def attach(variable: NDArray, grad_req: str) -> None:
    """`NDArray.attach_grad`."""
    code = _request(grad_req)
    with pause():
        grad = function("zeros_like")(variable) if code else None
    _core.mark_variables([variable], [grad], [code])


def mark_variables(
    variables: NDArray | Sequence[NDArray],
    gradients: NDArray | Sequence[NDArray],
    grad_reqs: str | Sequence[str] = "write",
) -> None:
    """Makes arrays leaves whose gradients backward puts into `gradients`.

    Parameters
    ----------
    gradients : of the shapes and types of the variables
    grad_reqs : {"write", "add", "null"}, one for all or one each
    """
    leaves = _listed(variables, "variables")
    reqs = [grad_reqs] * len(leaves) if isinstance(grad_reqs, str) else list(grad_reqs)
    _core.mark_variables(leaves, _listed(gradients, "gradients"), [_request(req) for req in reqs])


def _head_grads(heads: list[NDArray], head_grads: Any) -> list[NDArray | None] | None:
    if head_grads is None:
        return None
    grads = [head_grads] if isinstance(head_grads, NDArray) else list(head_grads)
    if len(grads) != len(heads):
        raise ArgumentError(
            f"[autograd] head_grads: expected {len(heads)} arrays, one per head, got {len(grads)}"
        )
    return grads


def backward(
    heads: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool = False,
    train_mode: bool = True,
) -> None:
    """Computes the gradients of `heads` with respect to the leaves, into the leaves' `grad`.

    Parameters
    ----------
    head_grads : gradients of the heads; None stands for ones
    retain_graph : keep what was recorded, so that it can be differentiated again

    Raises
    ------
    MXNetError  a head is in no graph, or the graph was freed by an earlier backward
    """
    listed = _listed(heads, "heads")
    _core.backward(listed, _head_grads(listed, head_grads), None, retain_graph, False, train_mode)


def grad(
    heads: NDArray | Sequence[NDArray],
    variables: NDArray | Sequence[NDArray],
    head_grads: NDArray | Sequence[NDArray | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    train_mode: bool = True,
) -> list[NDArray]:
    """Gradients of `heads` with respect to `variables`, as new arrays.

    Parameters
    ----------
    create_graph : record the computation of the gradients, so that they can be differentiated
    retain_graph : keep what was recorded; by default when `create_graph` is set

    Returns
    -------
    list of NDArray
        One for each variable, also when `variables` is a single array; zeros where no head depends on it.

    Raises
    ------
    MXNetError  a head or a variable is in no graph
    """
    listed = _listed(heads, "heads")
    wanted = _listed(variables, "variables")
    if not wanted:
        raise ArgumentError("[autograd.grad] variables: expected at least one array, got none")
    keep = create_graph if retain_graph is None else retain_graph
    grads = _core.backward(listed, _head_grads(listed, head_grads), wanted, keep, create_graph, train_mode)
    for i, (value, variable) in enumerate(zip(grads, wanted, strict=True)):
        if value is None:
            with pause():
                grads[i] = function("zeros_like")(variable)
    return cast("list[NDArray]", grads)


def get_symbol(x: NDArray) -> Any:
    """The recorded graph of an array as a Symbol, whose arguments stand for the arrays it began with.

    Leaves are named `var0`, …, other arrays `null1`, …; an array that entered twice without a
    gradient has two names. A call of a hybridised block shows its operators.

    Raises
    ------
    MXNetError   the array is in no graph, or its graph was freed or holds a `Function`
    PluginError  no plug-in makes symbols; mx-symbol does
    """
    from mx_core import plugins
    from mx_ndarray.recorded_graph import to_json

    return plugins.read_graph(to_json(x))


class Function:
    """A differentiable function written in Python.

    Derive, write `forward` and `backward` on NDArrays, call an instance. An instance is used once;
    inside both methods nothing is recorded.

    Threads: an instance belongs to the thread that calls it; `backward` runs on the thread that
    differentiates.

    Examples
    --------
    >>> class Sigmoid(Function):
    ...     def forward(self, x):
    ...         y = 1 / (1 + nd.exp(-x))
    ...         self.save_for_backward(y)
    ...         return y
    ...
    ...     def backward(self, dy):
    ...         (y,) = self.saved_tensors
    ...         return dy * y * (1 - y)
    """

    def __init__(self) -> None:
        self._used = False
        self.saved_tensors: tuple[NDArray, ...] = ()

    def save_for_backward(self, *args: NDArray) -> None:
        """Keeps arrays for `backward`, which finds them in `saved_tensors`; gradients of leaves as they are now."""
        self.saved_tensors = tuple(map(_as_it_is, args))

    def forward(self, *inputs: NDArray) -> Any:
        """The function."""
        raise NotImplementedError

    def backward(self, *output_grads: NDArray) -> Any:
        """One gradient per input, from one gradient per output."""
        raise NotImplementedError

    def __call__(self, *inputs: NDArray) -> Any:
        if self._used:
            raise MXNetError(
                f"[{type(self).__name__}] each instance can be called once; make a new one per call"
            )
        self._used = True
        training = is_training()
        with pause(train_mode=training):
            outputs = self.forward(*inputs)
        self._expect_arrays("forward", _plural(outputs))
        if not is_recording() or not any(x._recorded for x in inputs):
            return outputs
        single = isinstance(outputs, NDArray)
        # Saved outputs must not hold the node that holds them.
        results = [x.detach() for x in _listed(outputs, "outputs")]
        shapes = [x.shape for x in inputs]
        _core.record_custom(list(inputs), results, partial(self._gradients, shapes))
        return results[0] if single else results

    def _expect_arrays(self, method: str, values: list[Any]) -> None:
        for value in values:
            if not isinstance(value, NDArray):
                raise TypeError(
                    f"[{type(self).__name__}] {method}: expected NDArrays, got {type(value).__name__}"
                )

    def _gradients(
        self, shapes: Sequence[tuple[int, ...]], grads: Sequence[NDArray], retained: bool
    ) -> list[Any]:
        """What backward gives, checked; with `retained` it may be asked for again."""
        with pause(train_mode=is_training()):
            result = self.backward(*grads)
        values = _plural(result)
        self._expect_arrays("backward", [value for value in values if value is not None])
        if len(values) != len(shapes):
            raise MXNetError(
                f"[{type(self).__name__}] backward gave {len(values)} gradients for {len(shapes)} inputs"
            )
        for i, (value, given) in enumerate(zip(values, shapes, strict=True)):
            if value is not None and value.shape != given:
                raise MXNetError(
                    f"[{type(self).__name__}] backward: gradient {i}: expected shape "
                    f"{given}, got {value.shape}"
                )
        return values


def _as_it_is(array: NDArray) -> NDArray:
    """What a recorded call keeps of an array: a copy if it holds gradients of leaves, which a backward may write."""
    if not array._has_gradients:
        return array
    with pause(train_mode=is_training()):
        return array.copy()


def _plural(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (tuple, list)) else [values]
