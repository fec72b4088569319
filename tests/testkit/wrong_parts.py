# SPDX-License-Identifier: Apache-2.0
"""One plug-in with parts of training, images and commands that are wrong in one way each, and what the check says."""

from __future__ import annotations

SOURCE = '''
import click
import numpy as np

import mx

class Step(mx.optimizer.Optimizer):
    def create_state(self, index, weight):
        return None
    def update(self, index, weight, grad, state):
        weight -= 0.1 * grad

class ChangesGradient(Step):
    def update(self, index, weight, grad, state):
        grad *= self.lr
        weight -= grad

class IgnoresGradient(Step):
    def update(self, index, weight, grad, state):
        weight -= 0.01

class UpdatesOneRow(Step):
    def update(self, index, weight, grad, state):
        weight[0:1] -= 0.1 * grad[0:1]

class SharesState(Step):
    shared = []
    def create_state(self, index, weight):
        self.shared.append(mx.nd.zeros(weight.shape))
        return self.shared[0]

class StateOfAnObject(Step):
    def create_state(self, index, weight):
        return click.Option(["--state"])

class Right(mx.metric.EvalMetric):
    def __init__(self):
        super().__init__("acme")
    def update(self, labels, preds):
        right = labels[0].asnumpy().ravel() == preds[0].asnumpy().reshape(labels[0].shape[0], -1).argmax(1)
        self.sum_metric += float(right.sum())
        self.num_inst += right.size

class GivesText(Right):
    def get(self):
        return "acme", "0.5"

class NeverResets(Right):
    def reset(self):
        self.sum_metric = getattr(self, "sum_metric", 0.0)
        self.num_inst = getattr(self, "num_inst", 0)

class ChangesPredictions(Right):
    def update(self, labels, preds):
        super().update(labels, preds)
        preds[0][:] = 0

class Half(mx.init.Initializer):
    def _init_weight(self, name, arr):
        arr[:] = 0.5

class WritesOneRow(mx.init.Initializer):
    def _init_weight(self, name, arr):
        arr[0:1] = 0.5

class RaisesInside(mx.init.Initializer):
    def _init_weight(self, name, arr):
        raise RuntimeError("no licence")

class Negative(mx.image.Augmenter):
    def __call__(self, src):
        return 255 - src

class ChangesImage(mx.image.Augmenter):
    def __call__(self, src):
        src[:] = 255 - src
        return src

class GivesNothing(mx.image.Augmenter):
    def __call__(self, src):
        return None

class DropsAxis(mx.image.Augmenter):
    def __call__(self, src):
        return src[:, :, 0]

class Batches(mx.io.DataIter):
    dtype, pad = "float32", 0
    def __init__(self):
        super().__init__(2)
        self.reset()
        self.buffer = mx.nd.zeros((2, 3))
        self.provide_data, self.provide_label = [mx.io.DataDesc("data", (2, 3))], []
    def reset(self):
        self.count = 0
    def next(self):
        self.count += 1
        if self.count > 3:
            raise StopIteration
        return mx.io.DataBatch([self.made()], [], pad=self.pad)
    def made(self):
        return mx.nd.full((2, 3), self.count, dtype=self.dtype)

class Reuses(Batches):
    def made(self):
        self.buffer[:] = self.count
        return self.buffer

class OtherType(Batches):
    dtype = "float64"

class LargePad(Batches):
    pad = 5

def sniff(head):
    return bytes(head[:4]) == b"ACME"

def encode(image, *options):
    rows, columns = image.shape[:2]
    return b"ACME" + bytes([rows, columns]) + image.tobytes()

buffer = np.zeros(32 * 48 * 3, np.uint8)

def decode(data, color=1):
    rows, columns = data[4:6]
    image = buffer[: rows * columns * 3].reshape(rows, columns, 3)
    image[...] = np.frombuffer(data[6:], np.uint8).reshape(rows, columns, 3)
    return image if color else image[:, :, :1]

@click.command()
def silent():
    pass

@click.command()
def own():
    """Does nothing."""

def mx_register_optimizers(registry):
    for kind in (Step, ChangesGradient, IgnoresGradient, UpdatesOneRow, SharesState, StateOfAnObject):
        registry.add("acme" + kind.__name__, kind)

def mx_register_metrics(registry):
    for kind in (Right, GivesText, NeverResets, ChangesPredictions):
        registry.add("acme" + kind.__name__, kind)

def mx_register_initializers(registry):
    for kind in (Half, WritesOneRow, RaisesInside):
        registry.add("acme" + kind.__name__, kind)
    registry.add("acmeNumber", lambda: 3)

def mx_register_augmenters(registry):
    for kind in (Negative, ChangesImage, GivesNothing, DropsAxis):
        registry.add("acme" + kind.__name__, kind)

def mx_register_data_iters(registry):
    for kind in (Batches, Reuses, OtherType, LargePad):
        registry.add("acme" + kind.__name__, kind)

def mx_register_image_codecs(registry):
    registry.add("acme", (".acme",), sniff, decode, encode)

def mx_register_commands(registry):
    registry.add("acme-right", own)
    registry.add("plugins", own)
    registry.add("acme silent", silent)
    registry.add("acme-number", lambda: 3)
'''

#: parts that are right
RIGHT = (
    "optimizers 'acmeStep'", "metrics 'acmeRight'", "initializers 'acmeHalf'", "augmenters 'acmeNegative'",
    "data iters 'acmeBatches'", "commands 'acme-right'",
)  # fmt: skip
#: wrong ones, and a part of what is said
SAID = {
    "optimizers 'acmeChangesGradient'": "it changes the gradient, which was 0.5",
    "optimizers 'acmeIgnoresGradient'": "gradients of 0.5 and -0.5 give the same weight",
    "optimizers 'acmeUpdatesOneRow'": "leave 9 of 12 elements as they were",
    "optimizers 'acmeSharesState'": "create_state gives two weights the same array",
    "optimizers 'acmeStateOfAnObject'": "expected None, numbers, text, NDArrays and containers",
    "metrics 'acmeGivesText'": "acme is '0.5'; expected a number",
    "metrics 'acmeNeverResets'": "after reset [('acme', 0.5",
    "metrics 'acmeChangesPredictions'": "update changes the predictions",
    "initializers 'acmeWritesOneRow'": "18 of 24 elements of a weight of shape (4, 6) are not written",
    "initializers 'acmeRaisesInside'": "RuntimeError: no licence, at ",
    "initializers 'acmeNumber'": "make gives a int; expected a function of a name and an array",
    "augmenters 'acmeChangesImage'": "it changes the image of uint8 that it gets",
    "augmenters 'acmeGivesNothing'": "it makes a NoneType; expected an NDArray",
    "augmenters 'acmeDropsAxis'": "it makes one of shape (64, 96)",
    "data iters 'acmeReuses'": "batch 0 is written over by a later one",
    "data iters 'acmeOtherType'": "data: provide_data says float32, a batch has float64",
    "data iters 'acmeLargePad'": "pad of a batch: expected 0 or more and less than the batch size 2, got 5",
    "image codecs 'acme'": "decode writes the next image over the one that it gave before",
    "commands 'plugins'": "mx has a command 'plugins' of its own, which comes first",
    "commands 'acme silent'": "expected a word of letters, digits and hyphens, got 'acme silent'",
    "commands 'acme-number'": "expected a click command, got <function",
}
