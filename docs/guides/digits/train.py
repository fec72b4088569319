# SPDX-License-Identifier: Apache-2.0
"""Trains a convolutional network on handwritten digits, every part from its own package.

    python train.py [--out runs/digits] [--epochs 20] [--imperative]

Images are written and packed into RecordIO, read back by ImageRecordIter, and trained on through
Module.fit with kvstore='local'. The checkpoint is loaded again in a fresh process, which must
predict the same. Exit status 1 when the accuracy falls short of 98 %.
"""

from __future__ import annotations

import argparse
import logging
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from data import iterators, pack_records, write_images
from network import Imperative, symbol
from pictures import confusion_matrix, learning_curve

import mx

BATCH = 64
GOAL = 0.98
RATE = 3e-3


class Throughput:
    """Images per second of each epoch."""

    def __init__(self) -> None:
        self.rates: list[float] = []
        self._started = 0.0
        self._images = 0

    def batch(self, param: Any) -> None:
        """After each batch."""
        if param.nbatch == 0:
            self._started, self._images = time.perf_counter(), 0
            return
        self._images += BATCH

    def epoch(self, *_: Any) -> None:
        """After each epoch."""
        self.rates.append(self._images / (time.perf_counter() - self._started))


def train_symbol(train: Any, validation: Any, epochs: int, prefix: Path) -> tuple[list[float], list[float]]:
    """Module.fit; returns validation accuracy and images/s per epoch."""
    accuracy: list[float] = []
    speed = Throughput()
    module = mx.mod.Module(symbol(), context=mx.cpu())

    def remember(param: Any) -> None:
        accuracy.append(param.eval_metric.get()[1])
        print(
            f"epoch {param.epoch:2d}  validation accuracy {accuracy[-1]:.4f}  {speed.rates[-1]:,.0f} images/s"
        )

    batches = sum(1 for _ in train)
    train.reset()
    schedule = mx.lr_scheduler.CosineScheduler(epochs * batches, base_lr=RATE)
    module.fit(
        train, eval_data=validation, eval_metric=["acc", "ce"], validation_metric="acc", kvstore="local",
        optimizer="adam", optimizer_params={"learning_rate": RATE, "lr_scheduler": schedule, "wd": 1e-4},
        initializer=mx.init.Xavier(),
        batch_end_callback=speed.batch,
        epoch_end_callback=speed.epoch, eval_end_callback=remember, num_epoch=epochs,
    )  # fmt: skip
    module.save_checkpoint(str(prefix), epochs)
    return accuracy, speed.rates


def train_imperative(
    train: Any, validation: Any, epochs: int, prefix: Path
) -> tuple[list[float], list[float]]:
    """The same with mx.autograd and a KVStore; returns validation accuracy and images/s per epoch."""
    net = Imperative()
    store = mx.kv.create("local")
    store.set_optimizer(mx.optimizer.create("adam", learning_rate=RATE, wd=1e-4, rescale_grad=1 / BATCH))
    for name, value in net.params.items():
        store.init(name, value)
    accuracy, rates = [], []
    for epoch in range(epochs):
        started, images = time.perf_counter(), 0
        train.reset()
        for batch in train:
            with mx.autograd.record():
                scores = net(batch.data[0])
                loss = -mx.nd.pick(mx.nd.log_softmax(scores), batch.label[0])
            loss.backward()
            for i, (name, value) in enumerate(net.params.items()):
                store.push(name, value.grad, priority=-i)
                store.pull(name, out=value, priority=-i)
            images += BATCH
        mx.nd.waitall()
        rates.append(images / (time.perf_counter() - started))
        metric = mx.metric.Accuracy()
        validation.reset()
        for batch in validation:
            keep = BATCH - (batch.pad or 0)
            metric.update([batch.label[0][:keep]], [net(batch.data[0])[:keep]])
        accuracy.append(metric.get()[1])
        print(f"epoch {epoch:2d}  validation accuracy {accuracy[-1]:.4f}  {rates[-1]:,.0f} images/s")
    mx.model.save_checkpoint(str(prefix), epochs, symbol(), net.params, net.states)
    return accuracy, rates


def predict(prefix: Path, epochs: int, records: Path) -> tuple[Any, Any]:
    """Probabilities and labels of a record file, from a checkpoint."""
    _, validation = iterators(records, records, BATCH)
    module = mx.mod.Module.load(str(prefix), epochs)
    module.bind(validation.provide_data, validation.provide_label, for_training=False)
    labels = []
    for batch in validation:
        labels.append(batch.label[0].asnumpy()[: BATCH - (batch.pad or 0)])
    return module.predict(validation).asnumpy(), np.concatenate(labels).astype(int)


def fresh_process(arguments: argparse.Namespace, out: Path) -> Any:
    """Predictions of this script run again with --predict."""
    target = out / "predictions.npy"
    command = [
        sys.executable,
        __file__,
        "--predict",
        str(target),
        "--out",
        str(out),
        "--epochs",
        str(arguments.epochs),
    ]
    subprocess.run(command, check=True)
    return np.load(target)


def main() -> int:
    """The whole job."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("runs/digits"))
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument(
        "--imperative", "--gluon", action="store_true", help="train with autograd instead of Module"
    )
    parser.add_argument("--predict", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    out: Path = arguments.out
    prefix = out / "digits"
    if arguments.predict:
        np.save(arguments.predict, predict(prefix, arguments.epochs, out / "digits_val.rec")[0])
        return 0
    logging.getLogger().setLevel(logging.WARNING)
    mx.random.seed(7)
    out.mkdir(parents=True, exist_ok=True)
    count = write_images(out / "images")
    train_records, validation_records = pack_records(out / "images", prefix)
    print(f"{count} images packed into {train_records.name} and {validation_records.name}")
    train, validation = iterators(train_records, validation_records, BATCH)
    started = time.perf_counter()
    fit = train_imperative if arguments.imperative else train_symbol
    accuracy, rates = fit(train, validation, arguments.epochs, prefix)
    seconds = time.perf_counter() - started
    probabilities, labels = predict(prefix, arguments.epochs, validation_records)
    same = np.array_equal(fresh_process(arguments, out), probabilities)
    learning_curve(accuracy, rates, out / "learning_curve.png")
    confusion_matrix(labels, probabilities.argmax(1), out / "confusion_matrix.png")
    print(f"trained {arguments.epochs} epochs in {seconds:.1f} s, median {np.median(rates):,.0f} images/s")
    print(f"best validation accuracy {max(accuracy):.4f}, last {accuracy[-1]:.4f}")
    verdict = "the same" if same else "DIFFERENTLY"
    print(f"checkpoint {prefix}-{arguments.epochs:04d}.params predicts {verdict} in a fresh process")
    print("pictures: learning_curve.png, confusion_matrix.png in", out)
    print("plug-ins that are loaded:")
    for record in mx.plugins.plugins():
        if record.state == "loaded":
            print(f"  {record.name:15s} {record.distribution} {record.version}")
    return 0 if same and accuracy[-1] >= GOAL else 1


if __name__ == "__main__":
    sys.exit(main())
