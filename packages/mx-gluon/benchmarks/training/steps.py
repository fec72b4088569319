# SPDX-License-Identifier: Apache-2.0
"""Training steps of a framework; `python steps.py FRAMEWORK CASE` prints seconds of a step by style as JSON.

Styles take short turns, so that what else runs on the machine slows all of them. Runs on Python 3.8 too, where MXNet
1.9.1 lives.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib import import_module
from typing import TYPE_CHECKING

from training.shapes import CASES, MOMENTUM, RATE, Case, batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType

    Step = Callable[[], object]

TURNS, LASTING = 40, 0.05  # turns of a style, seconds of each


def gluon_step(name: str, case: Case, mx: ModuleType, hybrid: bool) -> Step:
    """A step of `Trainer`, imperative or hybridised."""
    from training.blocks import network

    net = network(name, case, mx)
    net.initialize(mx.init.Xavier())
    loss_of = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    if hybrid:
        for block in (net, loss_of):
            block.hybridize(static_alloc=True, static_shape=True)
    data, labels = map(mx.nd.array, batch(case))
    net(data)
    trainer = mx.gluon.Trainer(
        net.collect_params(), "sgd", {"learning_rate": RATE, "momentum": MOMENTUM}, kvstore=None
    )

    def step() -> None:
        with mx.autograd.record():
            loss = loss_of(net(data), labels)
        loss.backward()
        trainer.step(labels.size)

    return step


def module_step(name: str, case: Case, mx: ModuleType) -> Step:
    """A step of `Module` on the same network's symbol."""
    from training.blocks import network

    scores = mx.sym.reshape(network(name, case, mx)(mx.sym.var("data")), shape=(-1, case.classes))
    label = mx.sym.reshape(mx.sym.var("softmax_label"), shape=(-1,))
    module = mx.mod.Module(mx.sym.SoftmaxOutput(scores, label, name="softmax"))
    data, labels = map(mx.nd.array, batch(case))
    module.bind([("data", data.shape)], [("softmax_label", labels.shape)])
    module.init_params(mx.init.Xavier())
    module.init_optimizer(
        kvstore=None,
        optimizer_params={"learning_rate": RATE, "momentum": MOMENTUM, "rescale_grad": 1 / labels.size},
    )
    given = mx.io.DataBatch([data], [labels])

    def step() -> None:
        module.forward_backward(given)
        module.update()

    return step


def torch_step(name: str, case: Case, threads: int) -> Step:
    """A step of PyTorch in eager mode, with the optimizer's fastest form, on so many threads."""
    import torch

    from training.torch_modules import network

    net = network(name, case)
    optimizer = torch.optim.SGD(net.parameters(), RATE, MOMENTUM, fused=True)
    data, labels = map(torch.from_numpy, batch(case))
    data = data.long() if case.words else data
    labels = labels.long().reshape(-1)

    def step() -> None:
        if torch.get_num_threads() != threads:
            torch.set_num_threads(threads)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(data).reshape(-1, case.classes), labels)
        loss.backward()
        optimizer.step()

    return step


def steps(framework: str, name: str) -> Iterator[tuple[str, Step, Callable[[], object]]]:
    """Styles of a framework: name, step, wait."""
    case = CASES[name]
    if framework == "PyTorch":
        for threads in sorted({1, os.cpu_count() or 1}):
            yield f"eager, threads: {threads}", torch_step(name, case, threads), lambda: None
        return
    mx = import_module("mx" if framework == "mx" else "mxnet")
    yield "Module", module_step(name, case, mx), mx.nd.waitall
    yield "Gluon hybridised", gluon_step(name, case, mx, True), mx.nd.waitall
    yield "Gluon imperative", gluon_step(name, case, mx, False), mx.nd.waitall


def timed(step: Step, wait: Callable[[], object], number: int) -> tuple[float, float]:
    """Seconds of `number` steps, up to their end, and of the processors' time that they took."""
    began, worked = time.perf_counter(), time.process_time()
    for _ in range(number):
        step()
    wait()
    return time.perf_counter() - began, time.process_time() - worked


def main() -> None:
    """Measures one framework's styles in turns."""
    answers, sys.stdout = sys.stdout, sys.stderr  # what a library prints is no answer
    os.environ.setdefault("OMP_NUM_THREADS", str(os.cpu_count()))
    styles = {style: both for style, *both in steps(*sys.argv[1:])}
    numbers: dict[str, int] = {}
    for style, (step, wait) in styles.items():
        timed(step, wait, 3)
        numbers[style] = max(1, round(LASTING / timed(step, wait, 3)[0] * 3))
    taken: dict[str, dict[str, list[float]]] = {style: {"wall": [], "processors": []} for style in styles}
    for _ in range(TURNS):
        for style, (step, wait) in styles.items():
            for clock, seconds in zip(("wall", "processors"), timed(step, wait, numbers[style])):
                taken[style][clock].append(seconds / numbers[style])
    print(json.dumps(taken), file=answers)


if __name__ == "__main__":
    main()
