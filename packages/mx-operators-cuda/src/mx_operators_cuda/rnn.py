# SPDX-License-Identifier: Apache-2.0
"""RNN on a GPU: products by cuBLAS, and a kernel per step, layer by layer and direction by direction.

Projections, bounds of the cell state, lengths of sequences and 16-bit types are declined.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import ceil, prod
from typing import TYPE_CHECKING, Any

from mx_core import dtypes
from mx_core import expression as X
from mx_core.kernels import TensorSpec
from mx_operators.rnn.cells import CELLS
from mx_operators.rnn.params import RNNParam
from mx_operators.rnn.weights import directions
from mx_operators_cuda import elementwise, reduce, written
from mx_operators_cuda.codegen import names
from mx_operators_cuda.codegen.random import write_dropout
from mx_operators_cuda.codegen.reduction import runs_of
from mx_operators_cuda.launch import Kind, Launch, Parameter, Product, make_plan

if TYPE_CHECKING:
    from mx_core.kernels import KernelCall

_KINDS = {
    "rnn_relu": "mx::rnn::kRelu",
    "rnn_tanh": "mx::rnn::kTanh",
    "lstm": "mx::rnn::kLstm",
    "gru": "mx::rnn::kGru",
}
_WRITE: Parameter = (Kind.UINT32, 1)
_FLOAT32, _NARROW = 0, (dtypes.code("float16"), dtypes.code("bfloat16"))


@dataclass(frozen=True)
class Weights:
    """Elements before W, R, b_W and b_R of a layer and direction in the vector of parameters."""

    w: int
    r: int
    b_w: int
    b_r: int


@dataclass
class Stack:
    """Extents of a call, places in its memory, and its steps so far; `first` is the input that the data are."""

    call: KernelCall
    first: int
    steps: list[Launch | Product] = field(default_factory=list)
    scratch: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        p: Any = self.call.params
        self.p: RNNParam = p
        self.data: TensorSpec = self.call.inputs[self.first]
        # tensors of 16 bits are widened before the first step and rounded after the last one
        self.narrow = self.data.dtype in _NARROW
        self.code = _FLOAT32 if self.narrow else self.data.dtype
        self.item = dtypes.itemsize(self.code)
        self.time, self.batch, self.inputs = self.data.shape
        self.units, self.ways = p.state_size, directions(p)
        self.gates = CELLS[p.mode].gates
        self.rows, self.width = self.gates * p.state_size, self.ways * p.state_size

    def memory(self, elements: int) -> Parameter:
        """New scratch memory."""
        self.scratch.append(max(elements, 1) * self.item)
        return (Kind.SCRATCH, len(self.scratch) - 1)

    def given(self, i: int) -> Parameter:
        """Data, parameters, state or cell state."""
        return (Kind.INPUT, self.first + i)

    def at(self, place: Parameter, elements: int) -> Parameter:
        """A place some elements on."""
        return (place[0], place[1], (place[2] if len(place) > 2 else 0) + elements * self.item)

    def weights(self) -> list[Weights]:
        """By layer, then by direction."""
        begin, matrices = 0, []
        for layer in range(self.p.num_layers):
            columns = self.read(layer)
            for _ in range(self.ways):
                matrices.append((begin, begin + self.rows * columns))
                begin += self.rows * (columns + self.units)
        made = []
        for w, r in matrices:
            made.append(Weights(w, r, begin, begin + self.rows))
            begin += 2 * self.rows
        return made

    def read(self, layer: int) -> int:
        """Elements that a layer reads per step and row."""
        return self.inputs if layer == 0 else self.width

    def kept(self) -> tuple[int, int, int]:
        """Elements of the reserve: gates, and a value per unit, of a layer and direction; outputs of a layer."""
        cells = self.time * self.batch
        return (
            (cells * self.rows, cells * self.units, cells * self.width)
            if self.gates > 1
            else (0, 0, cells * self.width)
        )

    def reserved_elements(self) -> int:
        """Of the whole reserve."""
        gates, values, shown = self.kept()
        return self.p.num_layers * self.ways * (gates + values) + (self.p.num_layers - 1) * shown

    def reserved(self, reserve: Parameter, layer: int, way: int) -> tuple[Parameter, Parameter]:
        """Gates and values of a layer and direction in the reserve."""
        gates, values, _ = self.kept()
        at = (layer * self.ways + way) * (gates + values)
        return self.at(reserve, at), self.at(reserve, at + gates)

    def shown(self, reserve: Parameter, layer: int) -> Parameter:
        """The outputs of a layer below the last one in the reserve."""
        gates, values, outputs = self.kept()
        return self.at(reserve, self.p.num_layers * self.ways * (gates + values) + layer * outputs)

    def multiply(
        self,
        c: Parameter,
        a: Parameter,
        b: Parameter,
        turned: tuple[bool, bool],
        sizes: tuple[int, int, int],
        rows: tuple[int, int, int],
        add: bool = False,
    ) -> None:
        """C = op(A) · op(B), which a C or a sum without elements takes no step."""
        if 0 not in sizes:
            self.steps.append(Product(a, b, c, self.code, turned, sizes, rows, add=add))

    def elementwise(
        self, function: Any, n: int, inputs: Sequence[Parameter], output: Parameter, request: Parameter
    ) -> None:
        """One pass over n elements."""
        flat = TensorSpec((n,), self.code)
        traced = X.trace(function, len(inputs))
        made = elementwise.kernel("rnn", traced, [flat] * len(inputs), [flat])
        assert made is not None
        places: dict[Parameter, Parameter] = {(Kind.INPUT, i): place for i, place in enumerate(inputs)}
        places |= {(Kind.OUTPUT, 0): output, (Kind.REQUEST, 0): request}
        if n:
            self.steps.append(made.taking(places))

    def order(self, way: int) -> range:
        """Steps in the order in which a direction takes them."""
        return range(self.time - 1, -1, -1) if way else range(self.time)

    def function(self, name: str, arguments: Sequence[written.Argument]) -> None:
        """A kernel of a step."""
        types = [names.STORAGE[self.code], _KINDS[self.p.mode]]
        self.steps.append(written.launch("RNN", f"rnn::{name}", types, arguments, self.batch * self.units))

    def finished(self) -> list[Launch | Product]:
        """All steps; asked for once, before the scratch memory is."""
        return self._widened() if self.narrow else self.steps

    def plan(self) -> Any:
        """The plan of the steps."""
        call = self.call
        steps = self.finished()
        return make_plan(
            call.op.name, call.context, call.inputs, call.outputs, steps, scratch=self.scratch,
            random_blocks=call.random_blocks,
        )  # fmt: skip

    def _widened(self) -> list[Launch | Product]:
        """The steps on copies of all tensors in float32, between the casts of these."""
        copies: dict[tuple[Kind, int], int] = {}
        casts: dict[Kind, list[Launch | Product]] = {Kind.INPUT: [], Kind.OUTPUT: []}
        for kind, specs in ((Kind.INPUT, self.call.inputs), (Kind.OUTPUT, self.call.outputs)):
            for i, spec in enumerate(specs):
                n = prod(spec.shape)
                copy = self.memory(n)
                copies[kind, i] = copy[1]
                ends = [TensorSpec((n,), spec.dtype), TensorSpec((n,), self.code)]
                reads = kind is Kind.INPUT
                made = elementwise.kernel(
                    "rnn_cast", elementwise.identity(), *([x] for x in ends[:: 1 if reads else -1])
                )
                assert made is not None
                places: dict[Parameter, Parameter] = {
                    (Kind.INPUT, 0): (kind, i) if reads else copy, (Kind.OUTPUT, 0): copy if reads else (kind, i),
                    (Kind.REQUEST, 0): _WRITE if reads else (Kind.REQUEST, i),
                }  # fmt: skip
                casts[kind] += [made.taking(places)] if n else []

        def moved(place: Parameter) -> Parameter:
            if place[0] is Kind.REQUEST:
                return _WRITE
            at = copies.get((place[0], place[1]))
            return place if at is None else (Kind.SCRATCH, at, place[2] if len(place) > 2 else 0)

        steps: list[Launch | Product] = []
        for step in self.steps:
            if isinstance(step, Launch):
                steps.append(replace(step, parameters=tuple(map(moved, step.parameters))))
            else:
                steps.append(replace(step, a=moved(step.a), b=moved(step.b), c=moved(step.c)))
        return [*casts[Kind.INPUT], *steps, *casts[Kind.OUTPUT]]


def supported(call: KernelCall) -> bool:
    """No projection, bounds or lengths, and one floating-point type."""
    p: Any = call.params
    specs = (*call.inputs, *call.outputs)
    plain = p.projection_size is None and p.lstm_state_clip_min is None and p.lstm_state_clip_max is None
    same = len({spec.dtype for spec in specs}) == 1 and specs[0].dtype in (
        _FLOAT32,
        dtypes.code("float64"),
        *_NARROW,
    )
    return plain and not p.use_sequence_length and same and not any(spec.layout for spec in specs)


def rnn(call: KernelCall) -> Any:
    """data, parameters, state[, state_cell] -> output[, last states][, reserve][, mask]."""
    made = forward_stack(call)
    return None if made is None else made.plan()


def forward_stack(call: KernelCall) -> Stack | None:
    """The steps of the layers, or None for what is not supported."""
    if not supported(call):
        return None
    s = Stack(call, 0)
    if s.batch == 0:
        return s
    p, n_states = s.p, len(call.inputs) - 2
    outputs = list(range(len(call.outputs)))
    last = outputs[1 : 1 + n_states] if p.state_outputs else []
    rest = outputs[1 + len(last) :]
    masked = p.p > 0 and p.num_layers > 1
    keeps = len(rest) > masked
    n_masks = (p.num_layers - 1) * s.kept()[2]
    masks = s.memory(n_masks) if masked else None
    if masks is not None:
        _draw(s, masks, n_masks)
        s.elementwise(lambda m: m, n_masks, [masks], (Kind.OUTPUT, rest[-1]), (Kind.REQUEST, rest[-1]))
    reserve, top = _run_layers(s, masks, last)
    s.elementwise(lambda y: y, s.kept()[2], [top], (Kind.OUTPUT, 0), (Kind.REQUEST, 0))
    if keeps:
        s.elementwise(
            lambda y: y, s.reserved_elements(), [reserve], (Kind.OUTPUT, rest[0]), (Kind.REQUEST, rest[0])
        )
    return s


def _run_layers(s: Stack, masks: Parameter | None, last: Sequence[int]) -> tuple[Parameter, Parameter]:
    """All layers: the reserve, and the output of the last layer, in scratch memory."""
    shown = s.kept()[2]
    reserve, top = s.memory(s.reserved_elements()), s.memory(shown)
    work = s.memory(s.time * s.batch * s.rows), s.memory(s.batch * s.rows)
    below = s.memory(shown) if masks is not None else None
    x = s.given(0)
    for layer in range(s.p.num_layers):
        made = top if layer == s.p.num_layers - 1 else s.shown(reserve, layer)
        for way in range(s.ways):
            _run(s, layer, way, x, made, reserve, work, last)
        x = made
        if masks is not None and below is not None and layer < s.p.num_layers - 1:
            s.elementwise(lambda y, m: y * m, shown, [made, s.at(masks, layer * shown)], below, _WRITE)
            x = below
    return reserve, top


def _draw(s: Stack, masks: Parameter, n: int) -> None:
    """Scaled dropout masks: those of the reference; ones outside training."""
    if not s.call.is_train:
        s.elementwise(lambda: 1.0, n, [], masks, _WRITE)
        return
    scale = 1 / (1 - s.p.p) if s.p.p < 1 else 0.0
    source = write_dropout("mx_RNN_mask", s.code, scale)
    if n:
        parameters: tuple[Parameter, ...] = (
            masks, masks, (Kind.UINT32, 0), masks, _WRITE, (Kind.RANDOM_KEY, 0), (Kind.RANDOM_OFFSET, 0),
            (Kind.UINT32, ceil(s.p.p * 2**24)), (Kind.UINT64, n),
        )  # fmt: skip
        s.steps.append(Launch(source, -(-n // 4), parameters))


def _run(
    s: Stack, layer: int, way: int, x: Parameter, made: Parameter, reserve: Parameter,
    work: tuple[Parameter, Parameter], last: Sequence[int],
) -> None:  # fmt: skip
    """One direction of a layer: x · Wᵀ of all steps, then the steps."""
    i, columns, cells = layer * s.ways + way, s.read(layer), s.time * s.batch
    weights, vector = s.weights()[i], s.given(1)
    products, right = work
    gates, values = s.reserved(reserve, layer, way)
    s.multiply(
        products,
        x,
        s.at(vector, weights.w),
        (False, True),
        (cells, s.rows, columns),
        (columns, columns, s.rows),
    )
    state = s.batch * s.units
    h, before = s.at(s.given(2), i * state), s.units
    c = s.at(s.given(3), i * state) if s.p.mode == "lstm" else None
    for position, t in enumerate(s.order(way)):
        s.multiply(
            right,
            h,
            s.at(vector, weights.r),
            (False, True),
            (s.batch, s.rows, s.units),
            (before, s.units, s.rows),
        )
        ends = position == s.time - 1
        shown = s.at(made, t * s.batch * s.width + way * s.units)
        cell = s.at(values, t * state)
        s.function("forward", [
            written.read(s.at(products, t * s.batch * s.rows), s.code), written.read(right, s.code),
            written.read(s.at(vector, weights.b_w), s.code), written.read(s.at(vector, weights.b_r), s.code),
            written.read(h, s.code), written.absent(s.code) if c is None else written.read(c, s.code),
            written.write(shown, s.code), written.write(s.at(gates, t * s.batch * s.rows), s.code),
            written.write(cell, s.code), *(_last(s, last, j, i * state) if ends else _nothing(s) for j in range(2)),
            *map(written.number, (s.batch, s.units, before, s.width)),
        ])  # fmt: skip
        h, before = shown, s.width
        c = cell if c is not None else None


def _nothing(s: Stack) -> written.Argument:
    return written.Argument(f"static_cast<{names.STORAGE[s.code]}*>(nullptr), 0", ())


def _last(s: Stack, last: Sequence[int], j: int, elements: int) -> written.Argument:
    """Where the last state, or cell state, is written."""
    if j >= len(last):
        return _nothing(s)
    return written.write(s.at((Kind.OUTPUT, last[j]), elements), s.code, (Kind.REQUEST, last[j]))


# ---- gradient ----


def backward_rnn(call: KernelCall) -> Any:
    """Gradients of outputs, inputs, output, reserve, mask -> gradients of data, parameters and states."""
    if 0 in call.inputs[data_of_backward(call)].shape[1:2]:
        return None
    made = backward_stack(call)
    return None if made is None else made.plan()


def data_of_backward(call: KernelCall) -> int:
    """The input of a gradient that the data are: behind gradients of the outputs."""
    p: Any = call.params
    return 1 + (len(call.outputs) - 2 if p.state_outputs else 0)


def backward_stack(call: KernelCall, *, again: bool = False) -> Stack | None:
    """The steps of the gradient, or None for what is not supported; `again`: the layers are run before them, instead
    of reading the reserve."""
    if not supported(call):
        return None
    p: Any = call.params
    n_states, heads = len(call.outputs) - 2, data_of_backward(call)
    s = Stack(call, heads)
    vector = s.given(1)
    states = [s.given(2 + j) for j in range(n_states)]
    output: Parameter = (Kind.INPUT, heads + 2 + n_states)
    masked = p.p > 0 and p.num_layers > 1
    reserve: Parameter = _run_layers(s, None, ())[0] if again else (Kind.INPUT, output[1] + 1)
    mask: Parameter = (Kind.INPUT, len(call.inputs) - 1)
    _, _, shown = s.kept()
    cells, state = s.time * s.batch, s.batch * s.units
    da = s.memory(cells * s.rows)
    dr = s.memory(cells * s.rows) if p.mode == "gru" else da
    dh, dc = s.memory(state), s.memory(state)
    heads_below = [s.memory(shown), s.memory(shown)] if p.num_layers > 1 else []
    read = s.memory(shown) if masked else None
    head: Parameter = (Kind.INPUT, 0)
    for layer in reversed(range(p.num_layers)):
        if masked and layer < p.num_layers - 1:
            s.elementwise(lambda g, m: g * m, shown, [head, s.at(mask, layer * shown)], head, _WRITE)
        made = output if layer == p.num_layers - 1 else s.shown(reserve, layer)
        x = s.given(0)
        if layer:
            x = s.shown(reserve, layer - 1)
            if read is not None:
                s.elementwise(lambda y, m: y * m, shown, [x, s.at(mask, (layer - 1) * shown)], read, _WRITE)
                x = read
        below: Parameter = heads_below[layer % 2] if layer else (Kind.OUTPUT, 0)
        for way in range(s.ways):
            for j, place in enumerate([dh, dc][:n_states]):
                given = (Kind.INPUT, 1 + j) if p.state_outputs else None
                i = layer * s.ways + way
                s.elementwise(
                    (lambda: 0.0) if given is None else (lambda g: g), state,
                    [] if given is None else [s.at(given, i * state)], place, _WRITE,
                )  # fmt: skip
            _run_back(s, (layer, way), head, (made, x, below), reserve, (da, dr, dh, dc), vector, states)
        head = below
    return s


def _run_back(
    s: Stack, where: tuple[int, int], head: Parameter, tensors: tuple[Parameter, Parameter, Parameter],
    reserve: Parameter, work: tuple[Parameter, Parameter, Parameter, Parameter], vector: Parameter,
    states: Sequence[Parameter],
) -> None:  # fmt: skip
    """One direction of a layer: the steps backwards, then the gradients of weights and of what is below."""
    (layer, way), (made, x, below), (da, dr, dh, dc) = where, tensors, work
    i, columns, cells, state = layer * s.ways + way, s.read(layer), s.time * s.batch, s.batch * s.units
    weights, step = s.weights()[i], s.batch * s.rows
    gates, values = s.reserved(reserve, layer, way)
    order = list(s.order(way))
    lstm = s.p.mode == "lstm"
    for position in reversed(range(s.time)):
        t, first = order[position], position == 0
        before = s.units if first else s.width
        earlier = None if first else order[position - 1]
        h = (
            s.at(states[0], i * state)
            if earlier is None
            else s.at(made, earlier * s.batch * s.width + way * s.units)
        )
        c = s.at(states[-1], i * state) if earlier is None else s.at(values, earlier * state)
        s.function("backward", [
            written.read(s.at(head, t * s.batch * s.width + way * s.units), s.code),
            *(written.read(s.at(place, t * n), s.code) if s.gates > 1 else written.absent(s.code)
              for place, n in ((gates, step), (values, state))),
            written.read(h, s.code), written.read(c, s.code) if lstm else written.absent(s.code),
            written.read(s.at(made, t * s.batch * s.width + way * s.units), s.code),
            written.write(s.at(da, t * step), s.code), written.write(s.at(dr, t * step), s.code),
            written.write(dh, s.code), written.write(dc, s.code),
            *map(written.number, (s.batch, s.units, before, s.width, s.width)),
        ])  # fmt: skip
        s.multiply(
            dh, s.at(dr, t * step), s.at(vector, weights.r), (False, False), (s.batch, s.units, s.rows),
            (s.rows, s.units, s.units), add=True,
        )  # fmt: skip
    grads: Parameter = (Kind.OUTPUT, 1)
    s.multiply(
        s.at(grads, weights.w), da, x, (True, False), (s.rows, columns, cells), (s.rows, columns, columns)
    )
    # R meets the state before each step: the given one, then what the steps but the last one showed
    r_grad, begin = s.at(grads, weights.r), order[0]
    s.multiply(
        r_grad, s.at(dr, begin * step), s.at(states[0], i * state), (True, False), (s.rows, s.units, s.batch),
        (s.rows, s.units, s.units),
    )  # fmt: skip
    later, earlier_steps = (0, 1) if way else (1, 0)
    s.multiply(
        r_grad, s.at(dr, later * step), s.at(made, earlier_steps * s.batch * s.width + way * s.units), (True, False),
        (s.rows, s.units, (s.time - 1) * s.batch), (s.rows, s.width, s.units), add=True,
    )  # fmt: skip
    for begin, place in ((weights.b_w, da), (weights.b_r, dr)):
        _sum(s, place, s.at(grads, begin))
    s.multiply(
        below, da, s.at(vector, weights.w), (False, False), (cells, columns, s.rows), (s.rows, columns, columns),
        add=way > 0,
    )  # fmt: skip
    for j, place in enumerate([dh, dc][: len(states)]):
        s.elementwise(
            lambda g: g, state, [place], s.at((Kind.OUTPUT, 2 + j), i * state), (Kind.REQUEST, 2 + j)
        )


def _sum(s: Stack, place: Parameter, into: Parameter) -> None:
    """Gradients of all steps and rows added up."""
    made, parts = reduce.launches("rnn_bias", reduce.SUM, runs_of((s.time * s.batch, s.rows), (0,)), s.code)
    places: dict[Parameter, Parameter] = {
        (Kind.INPUT, 0): place, (Kind.OUTPUT, 0): into, (Kind.REQUEST, 0): (Kind.REQUEST, into[1]),
        (Kind.SCRATCH, 0): (Kind.SCRATCH, len(s.scratch)),
    }  # fmt: skip
    s.scratch += parts
    s.steps += [launch.taking(places) for launch in made]
