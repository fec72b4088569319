# SPDX-License-Identifier: Apache-2.0
"""Data sets, transforms and loaders of Gluon."""
import mxnet as mx
import numpy as np
from mxnet import gluon
from mxnet.gluon.data.vision import transforms

images = mx.nd.array(np.arange(6 * 8 * 8 * 3).reshape(6, 8, 8, 3) % 256, dtype='uint8')
labels = np.arange(6, dtype='int32')
dataset = gluon.data.ArrayDataset(images, labels)
transformer = transforms.Compose([transforms.Resize(6), transforms.CenterCrop(4), transforms.ToTensor(),
                                  transforms.Normalize([0.5, 0.4, 0.3], [0.2, 0.2, 0.2])])
first, label = dataset.transform_first(transformer)[2]
print(first.shape, first.dtype.__name__, label)

plain = transforms.Compose([transforms.CenterCrop(4), transforms.ToTensor(), transforms.Normalize(0.5, 0.25)])
first, _ = dataset.transform_first(plain)[2]
print(' '.join('%.4f' % v for v in first.asnumpy().ravel()[:8]))

for workers in (0, 2):
    loader = gluon.data.DataLoader(dataset.transform_first(plain), batch_size=4, shuffle=False,
                                   num_workers=workers, last_batch='keep')
    for data, label in loader:
        print(workers, data.shape, label.asnumpy().tolist(), '%.3f' % data.mean().asscalar())
print(len(gluon.data.DataLoader(dataset, 4, last_batch='discard')), len(gluon.data.DataLoader(dataset, 4)))

sampler = gluon.data.BatchSampler(gluon.data.SequentialSampler(5), 2, 'rollover')
print(list(sampler), list(sampler))
shuffled = gluon.data.DataLoader(gluon.data.SimpleDataset(list(range(20))), 5, shuffle=True)
print(sorted(int(v) for batch in shuffled for v in batch.asnumpy()) == list(range(20)))


def collate(samples):
    return mx.nd.array([s * 10 for s in samples])


print([b.asnumpy().tolist() for b in gluon.data.DataLoader([1, 2, 3], 2, batchify_fn=collate)])
print(gluon.utils.split_data(mx.nd.arange(6), 3)[1].asnumpy().tolist())
parts = gluon.utils.split_and_load(mx.nd.arange(8), [mx.cpu(0), mx.cpu(1)])
print([(p.context, p.asnumpy().tolist()) for p in parts])
