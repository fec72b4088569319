# SPDX-License-Identifier: Apache-2.0
"""Records what MXNet 1.9.1's data sets, samplers, loaders and transforms give. Runs under Python 3.8.

python gluon_data.py             records the cases below anew
python gluon_data.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import random

import mxnet as mx
import numpy as np
from common import write_or_check
from mxnet import nd
from mxnet.gluon import data
from mxnet.gluon.data.vision import transforms

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "data.json")

#: expressions whose values are recorded; the tests evaluate the same ones
CASES = [
    "list(data.SequentialSampler(4))",
    "list(data.SequentialSampler(3, 5))",
    "[int(i) for i in data.RandomSampler(10)]",
    "[list(data.RandomSampler(4)) for _ in range(3)]",
    "list(data.FilterSampler(lambda x: x % 3 == 0, data.SimpleDataset([3, 4, 6, 9])))",
    "twice(data.BatchSampler(data.SequentialSampler(10), 3, 'keep'))",
    "twice(data.BatchSampler(data.SequentialSampler(10), 3, 'discard'))",
    "twice(data.BatchSampler(data.SequentialSampler(10), 3, 'rollover'))",
    "twice(data.BatchSampler(data.SequentialSampler(9), 3))",
    "len(data.BatchSampler(data.SequentialSampler(10), 4, 'rollover'))",
    "listed(data.SimpleDataset('abc'))",
    "listed(data.ArrayDataset([1, 2], 'ab', np.array([[1, 2], [3, 4]])))",
    "listed(data.ArrayDataset([5, 6]))",
    "kind(data.ArrayDataset(nd.array([1, 2]), nd.ones((2, 2)))[1])",
    "kind(data.ArrayDataset(nd.array([1, 2], dtype='int32'))[0])",
    "listed(data.SimpleDataset(range(6)).filter(lambda x: x % 2))",
    "[listed(data.SimpleDataset(range(8)).shard(3, i)) for i in range(3)]",
    "[listed(data.SimpleDataset(range(2)).shard(3, i)) for i in range(3)]",
    "[listed(data.SimpleDataset(range(4)).take(n)) for n in (0, 2, 4, 9, None)]",
    "listed(data.SimpleDataset('abcd').sample(data.SequentialSampler(2, 1)))",
    "listed(data.SimpleDataset([1, 2]).transform(lambda x: x * 10))",
    "listed(data.SimpleDataset([(1, 2), (3, 4)]).transform(lambda x, y: x * y))",
    "listed(data.SimpleDataset([[1, 2], [3, 4]]).transform(lambda x: len(x)))",
    "listed(data.SimpleDataset([1, 2]).transform(lambda x: x * 10, lazy=False))",
    "listed(data.SimpleDataset([(1, 2, 3)]).transform_first(lambda x: -x))",
    "listed(data.SimpleDataset([1, 2]).transform_first(lambda x: -x))",
    "listed(data.SimpleDataset(range(9)).filter(lambda x: x > 2).shard(2, 1).take(2).transform(str))",
    "batches(data.DataLoader(list(range(7)), 3))",
    "batches(data.DataLoader(list(range(7)), 3, last_batch='discard'))",
    "batches(data.DataLoader(list(range(7)), 3, last_batch='rollover'))",
    "batches(data.DataLoader([0.5, 1.5], 2))",
    "batches(data.DataLoader([1, 2.5], 2))",
    "batches(data.DataLoader(np.arange(6, dtype='uint8').reshape(3, 2), 2))",
    "batches(data.DataLoader(nd.arange(6).reshape((3, 2)), 2))",
    "batches(data.DataLoader([(1, 2.0), (3, 4.0)], 2))",
    "batches(data.DataLoader([[1, 2], [3, 4]], 2))",
    "batches(data.DataLoader([(nd.ones((2,)), (1, 2)), (nd.zeros((2,)), (3, 4))], 2))",
    "batches(data.DataLoader(data.ArrayDataset(nd.array([1, 2, 3]), nd.ones((3, 2))), 2))",
    "batches(data.DataLoader([True, False], 2))",
    "batches(data.DataLoader([np.float16(1), np.float16(2)], 2))",
    "batches(data.DataLoader(list(range(6)), 2, shuffle=True))",
    "batches(data.DataLoader(list(range(6)), 2, sampler=data.SequentialSampler(3, 2)))",
    "batches(data.DataLoader(list(range(6)), batch_sampler=[[5, 0], [1]]))",
    "batches(data.DataLoader(list(range(4)), 2, batchify_fn=lambda x: [i * 10 for i in x]))",
    "batches(data.DataLoader(list(range(6)), 2, shuffle=True, num_workers=2, thread_pool=True))",
    "batches(data.DataLoader(list(range(6)), 4, num_workers=1, thread_pool=True, prefetch=0))",
    "batches(data.DataLoader(list(range(6)), 4, auto_reload=True))",
    "len(data.DataLoader(list(range(7)), 3, last_batch='discard'))",
]

#: transforms (`T`) of an image (`small`, `tall`), of several (`batch`), or of one after `ToTensor` (`tensor`)
TRANSFORMS = [
    "T.Cast('float16')(small)",
    "T.ToTensor()(small)",
    "T.ToTensor()(batch)",
    "T.ToTensor()(small.astype('float32'))",
    "T.Normalize(0.5, 2.0)(tensor)",
    "T.Normalize((0.1, 0.2, 0.3), (1.0, 0.5, 0.25))(tensor)",
    "T.Normalize([0.1, 0.2, 0.3], 2.0)(T.ToTensor()(batch))",
    "T.Resize(4)(small)",
    "T.Resize((5, 3))(small)",
    "T.Resize(4, keep_ratio=True)(tall)",
    "T.Resize(12, True, 0)(tall)",
    "T.Resize((9, 4), interpolation=2)(small)",
    "T.Resize(5)(batch)",
    "T.CropResize(1, 2, 4, 3)(small)",
    "T.CropResize(1, 2, 4, 3, (8, 5), 1)(small)",
    "T.CropResize(0, 1, 3, 3)(batch)",
    "T.CenterCrop(4)(small)",
    "T.CenterCrop((3, 5))(tall)",
    "T.CenterCrop((9, 4))(small)",
    "T.RandomResizedCrop(4)(small)",
    "T.RandomResizedCrop((5, 3), (0.5, 0.9), (0.8, 1.2), 0)(tall)",
    "T.Rotate(30.0)(tensor)",
    "T.Rotate(-75, zoom_in=True)(tensor)",
    "T.Rotate(120, zoom_out=True)(tensor)",
    "T.Rotate(10)(T.ToTensor()(batch))",
    "T.RandomRotation((-20, 50))(tensor)",
    "T.RandomRotation((-20, 50), zoom_in=True)(T.ToTensor()(batch))",
    "T.RandomRotation((-20, 50), rotate_with_proba=0.3)(tensor)",
    "T.RandomBrightness(0.0)(small)",
    "T.RandomContrast(0.0)(small)",
    "T.RandomSaturation(0.0)(small)",
    "T.RandomLighting(0.0)(small)",
    "T.RandomApply(T.CenterCrop(2), 1.0)(small)",
    "T.RandomApply(T.CenterCrop(2), 0.0)(small)",
    "T.RandomApply(T.CenterCrop(2))(small)",
    "T.Compose([T.Resize(5), T.ToTensor(), T.CenterCrop(3)][:2])(small)",
    "T.Compose([T.CenterCrop(3), T.Cast('float32')])(small)",
    "repr(T.Compose([T.Resize(5), T.ToTensor(), T.CenterCrop(3), T.Cast()]))",
    "repr(T.Compose([T.CenterCrop(3), T.CenterCrop(2), T.Resize(2), T.Cast(), T.ToTensor()]))",
    "len(T.Compose([T.ToTensor()]))",
]


def image(height, width):
    """Bytes that look different everywhere."""
    places = np.arange(height * width * 3).reshape(height, width, 3)
    return ((places * 37 + places**2 // 5) % 256).astype("uint8")


def pictures(array, to_tensor):
    """What transforms are tried on."""
    small = array(image(6, 7), dtype="uint8")
    batch = array(np.stack([image(5, 6), image(5, 6)[::-1]]), dtype="uint8")
    tall = array(image(9, 4), dtype="uint8")
    return {"small": small, "batch": batch, "tall": tall, "tensor": to_tensor(small)}


def kind(value):
    """A value with the types that programs see."""
    if isinstance(value, nd.NDArray):
        return ["NDArray", np.dtype(value.dtype).name, value.asnumpy().tolist()]
    if isinstance(value, (np.ndarray, np.generic)):
        return ["numpy", value.dtype.name, value.tolist()]
    if isinstance(value, (list, tuple)):
        return [type(value).__name__, [kind(part) for part in value]]
    return value


def listed(dataset):
    """All samples of a data set."""
    return [kind(dataset[i]) for i in range(len(dataset))]


def twice(sampler):
    """Two iterations, with lengths before each."""
    return [[len(sampler), [[int(i) for i in batch] for batch in sampler]] for _ in range(2)]


def batches(loader):
    """Two iterations of a loader."""
    return [[kind(batch) for batch in loader] for _ in range(2)]


def evaluated(expression, names):
    """The value of an expression as JSON has it, from one seed."""
    np.random.seed(7)
    random.seed(7)
    return json.loads(json.dumps(eval(expression, dict(names)), default=int))


def main():
    names = {"data": data, "nd": nd, "np": np, "mx": mx, "kind": kind, "listed": listed, "twice": twice}
    names["batches"] = batches
    names.update(pictures(nd.array, transforms.ToTensor()), T=transforms)
    found = [{"expression": each, "value": evaluated(each, names)} for each in CASES]
    shown = ["kind(%s)" % each for each in TRANSFORMS]
    found += [{"expression": each, "value": evaluated(each, names)} for each in shown]
    write_or_check(FILE, found, 1e-5)


if __name__ == "__main__":
    main()
