# SPDX-License-Identifier: Apache-2.0
"""A network of the model zoo from a local file, with a new head; the rest stays as it is."""
import mxnet as mx
import numpy as np
from mxnet import autograd, gluon
from mxnet.gluon.model_zoo import vision as models

mx.random.seed(2)
rng = np.random.RandomState(2)
original = models.mobilenet_v2_0_25(classes=10)
original.initialize(mx.init.Xavier())
original(mx.nd.zeros((1, 3, 32, 32)))
original.save_parameters('pretrained.params')

pretrained = models.get_model('mobilenetv2_0.25', classes=10)
pretrained.load_parameters('pretrained.params', ctx=mx.cpu())
x = mx.nd.array(rng.uniform(size=(12, 3, 32, 32)))
print('loaded', bool(np.allclose(pretrained(x).asnumpy(), original(x).asnumpy(), atol=1e-5)))

finetune = models.get_model('mobilenetv2_0.25', classes=2)
finetune.features = pretrained.features
finetune.output.initialize(mx.init.Xavier(magnitude=2.24))
finetune.features.collect_params().setattr('grad_req', 'null')
y = mx.nd.array(rng.randint(0, 2, 12))
finetune.hybridize()
before = finetune.features.collect_params()
frozen = {k: v.data().asnumpy() for k, v in before.items() if 'running' not in k}
trainer = gluon.Trainer(finetune.output.collect_params(), 'sgd', {'learning_rate': 0.5, 'momentum': 0.5})
loss_fn = gluon.loss.SoftmaxCrossEntropyLoss()
losses = []
for _ in range(15):
    with autograd.record():
        loss = loss_fn(finetune(x), y)
    loss.backward()
    trainer.step(12)
    losses.append(loss.mean().asscalar())
print('loss falls', losses[-1] < losses[0])
print('frozen stays', all((v == before[k].data().asnumpy()).all() for k, v in frozen.items()), len(frozen))
print(finetune(x).shape, len(finetune.collect_params().keys()))

finetune.export('tuned', epoch=1)
symbol, args, auxs = mx.model.load_checkpoint('tuned', 1)
print(len(args), len(auxs), symbol.list_inputs()[0])
block = gluon.nn.SymbolBlock.imports('tuned-symbol.json', ['data'], 'tuned-0001.params', ctx=mx.cpu())
print('imported', bool(np.allclose(block(x).asnumpy(), finetune(x).asnumpy(), atol=1e-4)))
