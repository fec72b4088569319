# SPDX-License-Identifier: Apache-2.0
"""Records recurrent cells of MXNet 1.9.1's contrib, and files of recurrent networks. Runs under Python 3.8.

python gluon_contrib_rnn.py             records the cases below anew
python gluon_contrib_rnn.py --check     compares with what is recorded, and changes nothing
"""

import json
import os
import subprocess
import sys
import tempfile
import warnings

os.environ.setdefault("MXNET_SUBGRAPH_BACKEND", "NONE")

import mxnet as mx
import numpy as np
from common import differences
from mxnet import autograd, nd
from mxnet.gluon import contrib, nn, rnn

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon")
TOLERANCE = 2e-5
BOTH = "rnn.BidirectionalCell(rnn.LSTMCell(2, prefix='l_'), rnn.GRUCell(3, prefix='r_'))"
ALL_INITS = (
    "i2h_weight_initializer='ones', h2h_weight_initializer='zeros', i2h_bias_initializer='lstmbias', "
    "h2h_bias_initializer='ones'"
)

#: expression, shape of the inputs, arguments of unroll; "states" and "lengths" say what is given, "steps" that one
#: step is made, "predict" that dropout is left out
CELLS = [
    ("crnn.LSTMPCell(4, 3)", (2, 3, 5), {}),
    ("crnn.LSTMPCell(4, 3, input_size=5, prefix='p_')", (3, 2, 5), {"layout": "TNC", "states": True}),
    (
        "crnn.LSTMPCell(4, 3, h2r_weight_initializer='ones', %s)" % ALL_INITS,
        (2, 3, 5),
        {"merge_outputs": True},
    ),
    ("crnn.VariationalDropoutCell(rnn.RNNCell(4))", (2, 3, 5), {}),
    ("crnn.VariationalDropoutCell(rnn.LSTMCell(4), 0.3, 0.2, 0.1)", (2, 3, 5), {"predict": True}),
    (
        "crnn.VariationalDropoutCell(rnn.LSTMCell(4), 0.3, 0.0, 0.1)",
        (3, 2, 5),
        {"predict": True, "layout": "TNC", "lengths": [2, 3], "merge_outputs": False},
    ),
    ("crnn.Conv1DRNNCell((3, 7), 2, 3, 3)", (2, 3, 3, 7), {"merge_outputs": True}),
    (
        "crnn.Conv1DRNNCell((3, 7), 2, 3, (5,), (1,), activation='relu', prefix='c_')",
        (2, 3, 3, 7),
        {"states": True},
    ),
    ("crnn.Conv2DRNNCell((2, 5, 6), 2, (3, 2), (3, 1), i2h_pad=(1, 0))", (2, 2, 2, 5, 6), {}),
    ("crnn.Conv3DRNNCell((1, 3, 4, 3), 2, 2, 1)", (1, 2, 1, 3, 4, 3), {}),
    ("crnn.Conv1DLSTMCell((3, 7), 2, 3, 3)", (2, 3, 3, 7), {}),
    (
        "crnn.Conv2DLSTMCell((2, 5, 6), 2, 3, 3, 1, i2h_dilate=1, h2h_dilate=2, activation='softsign')",
        (2, 2, 2, 5, 6),
        {"states": True},
    ),
    ("crnn.Conv3DLSTMCell((1, 3, 4, 3), 2, (1, 2, 2), 3)", (1, 2, 1, 3, 4, 3), {"merge_outputs": True}),
    ("crnn.Conv1DGRUCell((3, 7), 2, 3, 3, activation=nn.LeakyReLU(0.1))", (2, 1, 3, 7), {"steps": True}),
    ("crnn.Conv2DGRUCell((2, 5, 6), 2, 3, 3, i2h_dilate=(2, 1))", (2, 2, 2, 5, 6), {"lengths": [1, 2]}),
    ("crnn.Conv3DGRUCell((1, 3, 4, 3), 2, 2, 1)", (1, 2, 1, 3, 4, 3), {"states": True}),
]


def stack(cell, make):
    """Cells one above the other, made within the scope of the one that holds them."""
    with cell.name_scope():
        for each in make():
            cell.add(each)
    return cell


def drawn(random, shape):
    return nd.array(random.uniform(-1, 1, shape).astype("float32"))


def made(expression):
    with mx.name.NameManager():
        return eval(expression, {"rnn": rnn, "crnn": contrib.rnn, "nn": nn, "stack": stack})


def described(expression, net):
    """Names, shapes and texts before the first call."""
    return {
        "make": expression,
        "prefix": net.prefix,
        "before": repr(net),
        "states": [{k: str(v) for k, v in info.items()} for info in net.state_info(2)],
        "unknown": {name: list(param.shape) for name, param in net.collect_params().items()},
    }


def filled(net, random, arrays):
    """Names and shapes after the first call; parameters get random values."""
    params = net.collect_params()
    for name, param in sorted(params.items()):
        arrays["initial/" + name] = param.data().asnumpy()
        value = drawn(random, param.shape)
        arrays["param/" + name] = value.asnumpy()
        param.set_data(value)
    return {
        "after": repr(net),
        "shapes": {name: list(param.shape) for name, param in params.items()},
        "structure": {name: param.name for name, param in net._collect_params_with_prefix().items()},
    }


def finished(net, out, states, random, arrays, given):
    """Gradients of a weighted sum of the outputs and the states."""
    for i, each in enumerate([out, *states]):
        arrays["out/%d" % i] = each.asnumpy()
        arrays["head/%d" % i] = drawn(random, each.shape).asnumpy()
    heads = [nd.array(arrays["head/%d" % i]) for i in range(1 + len(states))]
    autograd.backward([out, *states], heads)
    for name, array in given.items():
        arrays["grad/" + name] = array.grad.asnumpy()
    for name, param in net.collect_params().items():
        arrays["grad/" + name] = param.grad().asnumpy()


def cell(number, expression, shape, options):
    """A cell, unrolled over sequences or, with "steps", called once."""
    random = np.random.RandomState(number)
    net = made(expression)
    told = dict(described(expression, net), options=options)
    x = drawn(random, shape)
    axis = options.get("layout", "NTC").find("T")
    batch = shape[1 - axis]
    arrays = {"x": x.asnumpy()}
    begin = [drawn(random, info["shape"]) for info in net.state_info(batch)]
    given = {"x": x}
    if options.get("states"):
        given.update({"state%d" % i: state for i, state in enumerate(begin)})
    for name, array in given.items():
        array.attach_grad()
        arrays[name] = array.asnumpy()
    settings = {key: options[key] for key in ("layout", "merge_outputs") if key in options}
    if "lengths" in options:
        settings["valid_length"] = nd.array(options["lengths"])
    if options.get("states"):
        settings["begin_state"] = begin

    def run():
        if options.get("steps"):
            first = nd.squeeze(nd.slice_axis(x, axis=axis, begin=0, end=1), axis=axis)
            out, states = net(first, [nd.zeros_like(state) for state in begin])
            return out * 1, states  # of an array that is an output twice MXNet loses a gradient
        return net.unroll(shape[axis], x, **settings)

    net.initialize(mx.init.Constant(0.5))
    run()
    told.update(filled(net, random, arrays))
    if options.get("predict"):
        out, states = run()
    else:
        with autograd.record():
            out, states = run()
    told["listed"] = isinstance(out, list)
    with autograd.record():
        if not options.get("predict"):
            out, states = run()
        out = nd.stack(*out, axis=axis) if isinstance(out, list) else out
    if options.get("predict"):
        for i, each in enumerate([out, *states]):
            arrays["out/%d" % i] = each.asnumpy()
    else:
        finished(net, out, states, random, arrays, given)
    return told, arrays


def exported():
    """A network with a layer between others, within which a graph makes the first states."""
    with mx.name.NameManager():
        net = nn.HybridSequential(prefix="f_")
        with net.name_scope():
            net.add(nn.Embedding(6, 4), rnn.LSTM(3, 2, bidirectional=True, layout="NTC"), nn.Dense(2))
    return net


def files(folder):
    """Files of a cell, of a layer and of a network, with what these compute."""
    random = np.random.RandomState(77)
    arrays = {}
    cell = made("stack(rnn.HybridSequentialRNNCell(prefix='c_'), lambda: [%s, rnn.LSTMCell(2)])" % BOTH)
    layer = made("rnn.LSTM(3, 2, bidirectional=True, prefix='l_')")
    x = drawn(random, (3, 2, 5))
    for name, net, run in (
        ("cells", cell, lambda: cell.unroll(3, x, layout="TNC", merge_outputs=True)[0]),
        ("layer", layer, lambda: layer(x)),
    ):
        net.initialize()
        run()
        for _, param in sorted(net.collect_params().items()):
            param.set_data(drawn(random, param.shape))
        arrays[name] = run().asnumpy()
        net.save_parameters(os.path.join(folder, "rnn-%s.params" % name))
        net.collect_params().save(os.path.join(folder, "rnn-%s-named.params" % name), strip_prefix=net.prefix)
    net = exported()
    words = nd.array(random.randint(0, 6, (2, 3)).astype("float32"))
    net.initialize()
    net.hybridize()
    net(words)
    for _, param in sorted(net.collect_params().items()):
        param.set_data(drawn(random, param.shape))
    arrays.update(x=x.asnumpy(), words=words.asnumpy(), net=net(words).asnumpy())
    net.export(os.path.join(folder, "rnn"))
    return arrays


def cells():
    """What cells compute."""
    cases, arrays = [], {}
    for i, given in enumerate(CELLS):
        told, found = cell(100 + i, *given)
        cases.append(told)
        arrays.update({"cells/%d/%s" % (i, key): value for key, value in found.items()})
    return cases, arrays


def convolved(path):
    """What cells compute, in a process without oneDNN: with it convolutions leave arrays that cannot be read."""
    settings = dict(os.environ, MXNET_MKLDNN_ENABLED="0", MXNET_STORAGE_FALLBACK_LOG_VERBOSE="0")
    subprocess.run([sys.executable, __file__, "--cells", path], env=settings, check=True)
    with np.load(path) as file:
        arrays = dict(file)
    return json.loads(str(arrays.pop("cases"))), arrays


def everything(folder):
    """Computes all; files of MXNet's go into the folder."""
    with tempfile.TemporaryDirectory() as scratch:
        cases, arrays = convolved(os.path.join(scratch, "cells.npz"))
    arrays.update({"files/" + key: value for key, value in files(folder).items()})
    return cases, arrays


def main():
    warnings.simplefilter("ignore")
    if sys.argv[1:2] == ["--cells"]:
        cases, arrays = cells()
        np.savez(sys.argv[2], cases=json.dumps(cases), **arrays)
        return
    check = sys.argv[1:] == ["--check"]
    with tempfile.TemporaryDirectory() as scratch:
        cases, arrays = everything(scratch if check else DATA)
    path = os.path.join(DATA, "contrib_rnn.json")
    if not check:
        with open(path, "w") as file:
            json.dump(cases, file, indent=1)
            file.write("\n")
        np.savez_compressed(os.path.join(DATA, "contrib_rnn.npz"), **arrays)
        return
    with open(path) as file:
        lines = differences(json.load(file), json.loads(json.dumps(cases)), TOLERANCE, "cases")
    with np.load(os.path.join(DATA, "contrib_rnn.npz")) as file:
        lines += differences(dict(file), arrays, TOLERANCE, "arrays")
    print("\n".join(lines) or "no difference")
    sys.exit(bool(lines))


if __name__ == "__main__":
    main()
