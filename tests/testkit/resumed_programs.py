# SPDX-License-Identifier: Apache-2.0
"""Trainings with checkpoints, as programs: each prints a line per batch, and a digest of all values at the end.

Their arguments are the folder of the checkpoints and the batches between two of them.
"""

from __future__ import annotations

START = """
import hashlib, sys
import numpy as np
import mx
folder, period = sys.argv[1], int(sys.argv[2])
mx.random.seed(7)
np.random.seed(7)
x = np.random.RandomState(0).uniform(-1, 1, (50, 6)).astype(np.float32)
y = (x.sum(axis=1) > 0).astype(np.float32)

def told(epoch, batch, value):
    print(epoch, batch, float(value).hex(), flush=True)

def digest(arrays):
    content = hashlib.sha256()
    for array in arrays:
        content.update(array.asnumpy().tobytes())
    print("end", content.hexdigest(), flush=True)
"""

_MODULE = """
net = mx.sym.FullyConnected(mx.sym.var("data"), num_hidden=8, name="fc1")
net = mx.sym.Dropout(mx.sym.BatchNorm(net, name="bn"), p=0.3)
net = mx.sym.SoftmaxOutput(mx.sym.FullyConnected(net, num_hidden=2, name="fc2"), name="softmax")
module = mx.mod.Module(net, context={context})
training = mx.checkpoint.Training(folder, module, period=period)
module.fit(
    training.watch(mx.io.NDArrayIter(x, y, 10, shuffle=True)), begin_epoch=training.epoch, num_epoch=4,
    eval_data=mx.io.NDArrayIter(x, y, 10, shuffle=True), eval_metric=["ce", "f1"], initializer=mx.init.Xavier(),
    optimizer="adam", optimizer_params=dict(learning_rate=0.05, lr_scheduler=mx.lr_scheduler.FactorScheduler(4, 0.9, base_lr=0.05)),
    batch_end_callback=lambda p: told(p.epoch, p.nbatch, sum(value for _, value in p.eval_metric.get_name_value())),
)
arguments, states = module.get_params()
digest([*arguments.values(), *states.values()])
"""

_GLUON = """
from mx import autograd, gluon
contexts = {context}
net = gluon.nn.HybridSequential()
net.add(gluon.nn.Dense(8, activation="relu"), gluon.nn.BatchNorm(), gluon.nn.Dropout(0.3), gluon.nn.Dense(2))
net.initialize(mx.init.Xavier(), ctx=contexts)
net.collect_params().setattr("grad_req", "add")
{hybridize}
trainer = gluon.Trainer(net.collect_params(), "sgd", dict(learning_rate=0.1, momentum=0.9))
loss_function = gluon.loss.SoftmaxCrossEntropyLoss()
training = mx.checkpoint.Training(folder, net, trainer, period=period)
data = training.watch(gluon.data.DataLoader(gluon.data.ArrayDataset(x, y){loader}))
for epoch in range(training.epoch, 4):
    for images, labels in data:
        total = 0
        parts = [gluon.utils.split_and_load(each, contexts) for each in (images, labels)]
        with autograd.record():
            losses = [loss_function(net(image), label) for image, label in zip(*parts)]
        autograd.backward(losses)
        if (training.batch + 1 + epoch) % 2 == 0:  # gradients of two batches are summed up, also across epochs
            trainer.step(20)
            net.collect_params().zero_grad()
            trainer.set_learning_rate(trainer.learning_rate * 0.97)
        told(epoch, training.batch, sum(float(loss.sum().asscalar()) for loss in losses))
digest([array for parameter in net.collect_params().values() for array in parameter.list_data()])
"""

_BUCKETING = """
import random
random.seed(7)
rng = np.random.RandomState(0)
sentences = [rng.randint(1, 9, 2 if i < 12 else 3).tolist() for i in range(20)]

def graph(length):
    net = mx.sym.Embedding(mx.sym.var("data"), input_dim=9, output_dim=6, name="embed")
    net = mx.sym.Dropout(mx.sym.FullyConnected(net, num_hidden=9, flatten=False, name="fc"), p=0.2)
    label = mx.sym.Reshape(mx.sym.var("softmax_label"), shape=(-1,))
    return mx.sym.SoftmaxOutput(mx.sym.Reshape(net, shape=(-1, 9)), label, name="softmax"), ("data",), ("softmax_label",)

module = mx.mod.BucketingModule(graph, default_bucket_key=3)
training = mx.checkpoint.Training(folder, module, period=period)
module.fit(
    training.watch(mx.rnn.BucketSentenceIter(sentences, 4, buckets=[2, 3], invalid_label=0)), num_epoch=4,
    begin_epoch=training.epoch, eval_metric=mx.metric.Perplexity(0), initializer=mx.init.Xavier(), optimizer="adam",
    batch_end_callback=lambda p: told(p.epoch, p.nbatch, p.eval_metric.get()[1]),
)
digest(module.get_params()[0].values())
"""

_PLAIN = ", 10, shuffle=True"
_DRAWING = ".transform_first(noisy), 10, shuffle=True, num_workers=2"
_NOISE = """
import random
def noisy(sample):
    return (sample + np.random.normal(scale=0.1, size=6) + random.random()).astype(np.float32)
"""

PROGRAMS = {
    "module": START + _MODULE.format(context="mx.cpu()"),
    "module on two contexts": START + _MODULE.format(context="[mx.cpu(0), mx.cpu(1)]"),
    "gluon": START + _GLUON.format(context="[mx.cpu()]", hybridize="", loader=_PLAIN),
    "gluon on two contexts, hybridised": START
    + _GLUON.format(context="[mx.cpu(0), mx.cpu(1)]", hybridize="net.hybridize()", loader=_PLAIN),
    "bucketing": START + _BUCKETING,
    "gluon with processes that draw": START
    + _NOISE
    + _GLUON.format(context="[mx.cpu()]", hybridize="net.hybridize()", loader=_DRAWING),
}
