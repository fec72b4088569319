# SPDX-License-Identifier: Apache-2.0
"""An LSTM foretells the next character of Python's documentation better than a table of pairs of characters.

Perplexity says between how many characters, equally probable, the model would have to choose.
"""

import argparse
import collections
import datetime
import decimal
import difflib
import doctest
import inspect
import logging
import pickle
import random
import re
import statistics
import string
import textwrap
import unittest

import numpy as np

import mx

CHARACTERS = string.ascii_lowercase + " .,'()\n"
LENGTH, BATCH, WIDTH, EPOCHS, SETTINGS = 40, 32, 128, 4, {"learning_rate": 0.005, "clip_gradient": 1.0}
MODULES = (
    argparse, collections, datetime, decimal, difflib, doctest, inspect, logging, pickle, random, re, statistics,
    string, textwrap, unittest,
)  # fmt: skip


def characters():
    """The docstrings of some modules, their classes and functions, as numbers of characters."""
    found = {}
    for module in MODULES:
        classes = [value for _, value in inspect.getmembers(module, inspect.isclass)]
        for home in [module, *classes]:
            for value in [home, *vars(home).values()]:
                text = inspect.getdoc(value) if inspect.isclass(value) or callable(value) else None
                found[text or ""] = None  # in order, and once
    text = re.sub(r" +", " ", "\n".join(found).lower())
    return np.array([CHARACTERS.index(each) for each in text if each in CHARACTERS], np.float32)


def iterator(codes):
    """Pieces of the text, and what comes a character later."""
    count = (len(codes) - 1) // LENGTH
    x, y = (codes[shift : shift + count * LENGTH].reshape(count, LENGTH) for shift in (0, 1))
    return mx.io.NDArrayIter(x, y, BATCH, shuffle=True, last_batch_handle="discard")


def of_pairs(train, test):
    """Perplexity of a table that counts which character follows which."""
    counts = np.ones((len(CHARACTERS), len(CHARACTERS)))
    np.add.at(counts, (train[:-1].astype(int), train[1:].astype(int)), 1)
    chances = counts / counts.sum(axis=1, keepdims=True)
    return float(np.exp(-np.log(chances[test[:-1].astype(int), test[1:].astype(int)]).mean()))


def by_module(train, test):
    """Perplexity of a Module."""
    net = mx.sym.Embedding(mx.sym.Variable("data"), input_dim=len(CHARACTERS), output_dim=32)
    cell = mx.rnn.FusedRNNCell(WIDTH, mode="lstm", prefix="lstm_")
    net, _ = cell.unroll(LENGTH, mx.sym.swapaxes(net, 0, 1), layout="TNC", merge_outputs=True)  # steps first
    net = mx.sym.FullyConnected(
        mx.sym.reshape(mx.sym.swapaxes(net, 0, 1), (-1, WIDTH)), num_hidden=len(CHARACTERS)
    )
    label = mx.sym.reshape(mx.sym.Variable("softmax_label"), (-1,))
    module = mx.mod.Module(mx.sym.SoftmaxOutput(net, label, normalization="batch", name="softmax"))
    perplexity = mx.metric.Perplexity(ignore_label=None)
    module.fit(
        train,
        eval_metric=perplexity,
        num_epoch=EPOCHS,
        initializer=mx.init.Xavier(),
        optimizer="adam",
        optimizer_params={**SETTINGS, "rescale_grad": 1.0},
    )
    return module.score(test, perplexity)[0][1]


def in_gluon(train, test):
    """Perplexity of the same network in Gluon."""
    net = mx.gluon.nn.HybridSequential()
    net.add(mx.gluon.nn.Embedding(len(CHARACTERS), 32), mx.gluon.rnn.LSTM(WIDTH, layout="NTC"))
    net.add(mx.gluon.nn.Dense(len(CHARACTERS), flatten=False))
    net.initialize(mx.init.Xavier())
    net.hybridize()
    loss = mx.gluon.loss.SoftmaxCrossEntropyLoss()
    trainer = mx.gluon.Trainer(net.collect_params(), "adam", SETTINGS)
    for _ in range(EPOCHS):
        train.reset()
        for batch in train:
            with mx.autograd.record():
                error = loss(net(batch.data[0]), batch.label[0])
            error.backward()
            trainer.step(BATCH)
    test.reset()
    return float(np.exp(np.mean([loss(net(b.data[0]), b.label[0]).mean().asscalar() for b in test])))


def main():
    mx.random.seed(1)
    np.random.seed(1)
    codes = characters()
    train, test = codes[: len(codes) * 9 // 10], codes[len(codes) * 9 // 10 :]
    pairs = of_pairs(train, test)
    print(f"{len(train):,} characters to learn from; perplexity of pairs: {pairs:.2f}")
    for name, learn in (("Module", by_module), ("Gluon", in_gluon)):
        perplexity = learn(iterator(train), iterator(test))
        print(f"{name}: perplexity {perplexity:.2f}")
        assert perplexity < 0.7 * pairs


if __name__ == "__main__":
    main()
