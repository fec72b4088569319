# SPDX-License-Identifier: Apache-2.0
"""Networks beside other frameworks, float32 and bfloat16, in one run and in turns.

    python bench_networks.py                                   all rows
    python bench_networks.py resnet50_v1/1/inference[/float32] some of them
    python bench_networks.py --symbol net-symbol.json --params net-0000.params --data 1,3,224,224 [--training]

The last form measures a network of yours. Its input is called `data`; `--params` is a file of `Module.save_checkpoint`,
and parameters are drawn where none is given. Frameworks that lack one of its operators are left out with a line.

Each row has the median of images (sequences, words) per second, the median ratio to each rival over the turns with half
the distance of its quartiles, and the part of a step in which no node runs. Lines below it give GFLOP/s of the direct
computation, how near we come to the limit (`contest.ours.Alone`) and to that of oneDNN's direct convolutions, which
Winograd's exceed, and what each operator takes (`contest.inside`). All frameworks take equally many steps in a turn.
Their outputs have to be ours, and their gradients in a training step, which is forward and backward for all parameters.
`--markdown FILE` writes a table with date, commit, processor and versions; one table is of one kind of processor.

Rivals run in Pythons of their own: MX_BENCH_TORCH_PYTHON, MX_BENCH_JAX_PYTHON, MX_BENCH_ONNXRUNTIME_PYTHON,
MX_BENCH_OPENVINO_PYTHON, MX_BENCH_MXNET_PYTHON, or this one where they are not given. Each gets its best: memory that
is not given back to the system, attention as one call, the memory format that is quicker, inputs and outputs bound. In
bfloat16 rivals keep weights in it, or convert where they see fit (OpenVINO); we run the pass `bfloat16` or, to train,
`amp`, with parameters in float32. All rows take more than an hour on two cores:
`nox -s bench -- networks`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from contest.inside import Inside
from contest.ours import Alone, fill
from contest.rivals import start
from contest.table import OURS, Row, markdown
from contest.task import Task, write_task
from contest.timing import turn

from mx_core.testing.benchmark import record
from mx_ndarray import nd
from mx_symbol import sym
from mx_symbol.memory.cost import flops
from mx_symbol.runtime.executor import Executor
from mx_symbol.testing.networks import IMAGE_NETWORKS, lstm_language_model, transformer_encoder

#: minutes that `nox -s bench` gives it: networks times frameworks
MINUTES = 150
#: network, batch, mode, type
ROWS = (
    ("resnet50_v1", 1, "inference", "float32"), ("resnet18_v1", 16, "training", "float32"),
    ("transformer", 8, "training", "float32"), ("lstm", 20, "training", "float32"),
    ("mobilenet1.0", 1, "inference", "float32"), ("resnet50_v1", 32, "inference", "float32"),
    ("transformer", 8, "inference", "float32"), ("vgg16", 1, "inference", "float32"),
    ("lstm", 20, "inference", "float32"), ("resnet50_v1", 1, "inference", "bfloat16"),
    ("resnet50_v1", 32, "inference", "bfloat16"), ("mobilenet1.0", 1, "inference", "bfloat16"),
    ("vgg16", 1, "inference", "bfloat16"), ("transformer", 8, "inference", "bfloat16"),
    ("lstm", 20, "inference", "bfloat16"), ("resnet18_v1", 16, "training", "bfloat16"),
    ("transformer", 8, "training", "bfloat16"), ("lstm", 20, "training", "bfloat16"),
)  # fmt: skip
TURNS = 9
#: between turns, seconds: until idle threads of the last one have stopped spinning
PAUSE = 0.25
#: a turn of ours lasts about this long, seconds, and has at least and at most so many steps
TURN, FEWEST, MOST = 0.3, 3, 30
STEPS = 35
PASSES = {"inference": "+bfloat16", "training": "+amp"}


@dataclass(frozen=True)
class Network:
    """What is measured.

    Attributes
    ----------
    items : images, sequences or words in a batch
    shapes : of the inputs, which get no gradient
    data : draws the input `data`
    given : parameters and states by name; others are drawn
    """

    symbol: sym.Symbol
    items: int
    shapes: dict[str, tuple[int, ...]]
    data: Callable[[Any], np.ndarray]
    given: dict[str, np.ndarray]


def network(name: str, batch: int) -> Network:
    """A network of the table."""
    if name == "transformer":
        shape: tuple[int, ...] = (batch, 128, 512)
        return Network(
            transformer_encoder(), batch, {"data": shape}, lambda rng: rng.standard_normal(shape), {}
        )
    if name == "lstm":
        shapes = {"data": (STEPS, batch), "begin_h": (2, batch, 650), "begin_c": (2, batch, 650)}
        words = (STEPS, batch)
        return Network(
            lstm_language_model(), batch * STEPS, shapes, lambda rng: rng.integers(0, 10_000, words), {}
        )
    shape = (batch, 3, 224, 224)
    return Network(IMAGE_NETWORKS[name](), batch, {"data": shape}, lambda rng: rng.standard_normal(shape), {})


def network_of_files(symbol: str, params: str | None, shape: tuple[int, ...]) -> Network:
    """A network of the user's.

    Raises
    ------
    ValueError
        The file of parameters has some that the network has not.
    """
    net = sym.load(symbol)
    saved = nd.load(params) if params else {}
    given = {name.partition(":")[2]: array.asnumpy() for name, array in saved.items()}
    known = {*net.list_arguments(), *net.list_auxiliary_states()}
    if unknown := sorted(given.keys() - known):
        raise ValueError(f"{params} has {', '.join(unknown)}, which {symbol} has not")
    return Network(net, shape[0], {"data": shape}, lambda rng: rng.standard_normal(shape), given)


@contextmanager
def environment(name: str, value: str) -> Iterator[None]:
    """An environment variable for a while."""
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        if before is None:
            del os.environ[name]
        else:
            os.environ[name] = before


def is_drawn(node: Any) -> bool:
    """Whether a node draws random numbers; dropout of probability 0 does not."""
    return node.op is not None and node.op.is_random and getattr(node.params, "p", 1.0) != 0


def gradients(
    net: Network, arrays: dict[str, np.ndarray], request: dict[str, str]
) -> dict[str, np.ndarray] | None:
    """Gradients of all parameters in float32; None where the network draws random numbers."""
    if any(map(is_drawn, net.symbol.nodes)):
        return None
    executor = net.symbol.simple_bind(None, grad_req=request, **net.shapes)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        array[:] = arrays[name]
    executor.forward(is_train=True)
    executor.backward(nd.ones(executor.outputs[0].shape))
    return {n: g.asnumpy() for n, g in executor.grad_dict.items() if g is not None and request[n] == "write"}


def measure(name: str, net: Network, mode: str, dtype: str) -> tuple[Row, dict[str, str]]:
    """A row of the table, and the rivals' versions."""
    training = mode == "training"
    labels = [n for n in net.symbol.list_arguments() if n.endswith("label")]
    fixed = {*net.shapes, *labels}
    request = {n: "write" if training and n not in fixed else "null" for n in net.symbol.list_arguments()}
    passes = PASSES[mode] if dtype == "bfloat16" else None

    def bind() -> Executor:
        return net.symbol.simple_bind(None, grad_req=request, passes=passes, **net.shapes)

    executor = bind()
    arrays = fill(executor, net.data, net.given)
    graph = executor._graph
    with tempfile.TemporaryDirectory() as folder:
        expected = executor.forward()[0].asnumpy()
        exact = net.symbol.simple_bind(None, grad_req="null", **net.shapes)
        found = gradients(net, arrays, request) if training else None
        write_task(Path(folder), net.symbol, exact._graph.specs, arrays, fixed, expected, found)
        rivals, missing = start(Task(Path(folder), training, dtype))
        head = nd.ones(executor.outputs[0].shape)

        def step() -> None:
            executor.forward(is_train=training)
            if training:
                executor.backward(head)
            nd.waitall()

        alone, inside = Alone(executor, training), Inside(step)
        direct = None
        if (
            any(node.op is not None and node.op.name == "Convolution" for node in net.symbol.nodes)
            and not passes
        ):
            with environment("MX_WINOGRAD", "0"):
                direct = Alone(bind(), training)
        runs = min(max(int(TURN / min(turn(step, 2))), FEWEST), MOST)
        turns: dict[str, list[list[float]]] = {way: [] for way in (OURS, *(rival.name for rival in rivals))}
        for _ in range(TURNS):
            turns[OURS].append(turn(step, runs))
            for rival in rivals:
                time.sleep(PAUSE)
                turns[rival.name].append(rival.measure(runs))
            time.sleep(PAUSE)
            inside.measure(FEWEST)
            alone.measure()
            if direct is not None:
                direct.measure()
        for rival in rivals:
            rival.stop()
    row = Row(f"{name}/{mode}/{dtype}", net.items, turns)
    row.print_records()
    record(f"{row.name}, between nodes", 100 * inside.between(), "%")
    nodes = graph.schedule[: None if training else graph.n_forward]
    seconds = net.items / row.speed(OURS)
    speed = f"{sum(flops(node, graph.specs) for node in nodes) / seconds / 1e9:.0f} GFLOP/s"
    limit = alone.limit()
    speed += (
        ", layers too short to tell the limit" if limit is None else f", {limit / seconds:.0%} of the limit"
    )
    if direct is not None and (limit := direct.limit()) is not None:
        speed += f", {limit / seconds:.0%} of that of direct convolutions"
    print(
        f"    {speed}\n    {inside.shares()}; nodes alone, with warm caches, {alone.total() / seconds:.0%}",
        flush=True,
    )
    if training and found is None:
        print("    gradients are not compared: the network draws random numbers")
    for line in missing:
        print(f"    missing: {line}", flush=True)
    return row, {rival.name: rival.version for rival in rivals}


def is_wanted(row: str, names: Collection[str]) -> bool:
    """Whether a row is among names, in which float32 may be left out."""
    return row in names or row.removesuffix("/float32") in names


def arguments(words: Sequence[str] | None = None) -> argparse.Namespace:
    """What is asked for; `data` is a shape.

    Raises
    ------
    SystemExit
        A row that does not exist, a shape that is none, or options that do not go together.
    """
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="*", help="network/batch/mode[/type]")
    parser.add_argument("--symbol", help="a symbol file")
    parser.add_argument("--params", help="its parameters")
    parser.add_argument("--data", help="shape of its input, as 1,3,224,224")
    parser.add_argument("--training", action="store_true", help="a training step of it")
    parser.add_argument("--dtype", choices=("float32", "bfloat16"), help="float32 where it is not given")
    parser.add_argument("--markdown", type=Path, help="where a table is written")
    given = parser.parse_args(words)
    names = ["/".join(map(str, row)) for row in ROWS]
    for row in given.rows:
        if not any(is_wanted(name, [row]) for name in names):
            parser.error(f"no row {row!r}; there are: {', '.join(names)}")
    if given.symbol and given.rows:
        parser.error("either rows or --symbol")
    if not given.symbol and (given.params or given.data or given.training or given.dtype):
        parser.error("--params, --data, --training and --dtype describe the network of --symbol")
    if given.symbol:
        try:
            given.data = tuple(map(int, (given.data or "").split(",")))
        except ValueError:
            parser.error(f"--symbol needs --data, the shape of its input as 1,3,224,224, not {given.data!r}")
    return given


def main() -> None:
    """All rows, those named, or a network of the user's."""
    given = arguments()
    print("medians of steps per second (images, sequences, words), and ratios to each rival")
    rows: list[Row] = []
    versions: dict[str, str] = {}
    if given.symbol:
        net = network_of_files(given.symbol, given.params, given.data)
        mode = "training" if given.training else "inference"
        rows_wanted = [(Path(given.symbol).stem, net, mode, given.dtype or "float32")]
    else:
        rows_wanted = [
            (f"{name}/{batch}", network(name, batch), mode, dtype)
            for name, batch, mode, dtype in ROWS
            if not given.rows or is_wanted(f"{name}/{batch}/{mode}/{dtype}", given.rows)
        ]
    for name, net, mode, dtype in rows_wanted:
        row, found = measure(name, net, mode, dtype)
        rows.append(row)
        versions |= found
    if given.markdown:
        given.markdown.write_text(markdown(rows, versions))


if __name__ == "__main__":
    main()
