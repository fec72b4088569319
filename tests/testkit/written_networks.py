# SPDX-License-Identifier: Apache-2.0
"""Networks of which MXNet 1.9.1 wrote the files in data/written, built by the same calls."""

from mx_symbol import AttrScope, Prefix, sym


def mlp():
    x = sym.Variable("data")
    with AttrScope(ctx_group="dev1", __lr_mult__="0.5", __mood__="so"):
        h = sym.FullyConnected(x, num_hidden=7, name="fc1", attr={"__wd_mult__": "0.3"})
    h = sym.Activation(h, act_type="relu")
    return sym.SoftmaxOutput(sym.FullyConnected(h, num_hidden=3, no_bias=True), name="softmax")


def varattrs():
    a = sym.Variable(
        "a",
        shape=(0, 3),
        lr_mult=2.0,
        wd_mult=0.0,
        dtype="float32",
        init='["uniform", {"scale": 0.1}]',
        attr={"__x__": "1"},
    )
    b = sym.Variable("b", shape=(2, 3), dtype="float16", stype="default")
    c = sym.Variable("c", init="zeros")
    return sym.broadcast_add(a, sym.cast(b, dtype="float32")) * c


def group():
    x = sym.Variable("x")
    a = sym.exp(x, name="ex")
    b = sym.SliceChannel(a, num_outputs=2, axis=1, name="sl")
    return sym.Group([b[1], a, b[0], x])


def scalars():
    x = sym.Variable("x")
    return (
        ((x + 1) * 2.5 - (3 - x) / 0.5) ** 2
        + (x > 0.5) * 1
        + 2 / (x + 3)
        + 5 % (x + 10)
        + x % 2
        + sym.maximum(x, 0.1)
        + sym.minimum(0.2, x)
        + -x
        + sym.hypot(x, 2.0)
        + 2**x
    )


def shapes():
    x = sym.Variable("x")
    return sym.Group(
        [
            sym.reshape(x, shape=(-1, 0)),
            sym.transpose(x, axes=(1, 0, 2)),
            sym.slice(x, begin=(0, None, 1), end=(2, 3, None), step=(1, 1, 1)),
            sym.slice_axis(x, axis=1, begin=1, end=None),
            sym.expand_dims(x, axis=-1),
            sym.tile(x, reps=(1, 2, 1)),
            sym.Pad(
                sym.expand_dims(x, axis=0),
                mode="constant",
                pad_width=(0, 0, 0, 0, 1, 1, 2, 2),
                constant_value=1.5,
            ),
            sym.squeeze(sym.expand_dims(x, axis=0), axis=(0,)),
            sym.squeeze(sym.expand_dims(x, axis=0)),
            sym.Reshape(x, shape=(0, -3), reverse=False),
            sym.swapaxes(x, dim1=0, dim2=2),
            sym.flip(x, axis=(0,)),
            sym.repeat(x, repeats=2, axis=None),
            sym.stack(x, x, axis=1, num_args=2),
            sym.concat(x, x, dim=-1),
        ]
    )


def reductions():
    x = sym.Variable("x")
    return sym.Group(
        [
            sym.sum(x),
            sym.sum(x, axis=1),
            sym.mean(x, axis=(0, 2), keepdims=True),
            sym.max(x, axis=-1, exclude=True),
            sym.norm(x, ord=1, axis=1),
            sym.argmax(x, axis=1),
            sym.topk(x, k=2, axis=-1, ret_typ="both", is_ascend=False)[0],
            sym.sort(x, axis=None),
            sym.argsort(x, axis=0, dtype="int32"),
            sym.prod(x, axis=()),
            sym.nansum(x),
        ]
    )


def embedding():
    i = sym.Variable("i")
    e = sym.Embedding(i, input_dim=10, output_dim=4, dtype="float32", sparse_grad=False, name="emb")
    return sym.Group(
        [
            e,
            sym.one_hot(i, depth=10, on_value=2.0, off_value=-1),
            sym.take(e, sym.zeros((2,)), axis=1, mode="clip"),
            sym.SequenceMask(e, use_sequence_length=False, value=-1.0),
            sym.pick(e, i, axis=-1, mode="clip"),
        ]
    )


def misc():
    x = sym.Variable("x")
    return sym.Group(
        [
            x + sym.ones((2, 3)),
            x * sym.zeros((2, 3), dtype="float32"),
            sym.arange(0, 6, 2),
            sym.full((2, 3), 1.5) + x,
            sym.arange(3),
            sym.eye(3, 2, 1),
            sym.linspace(0, 1, 5),
            sym.zeros_like(x),
            sym.ones_like(x),
            sym.clip(x, -0.5, 0.5),
            sym.cast(x, "int32"),
            sym.where(x > 0, x, -x),
            sym.LeakyReLU(x, act_type="elu", slope=0.3),
            sym.LeakyReLU(x, act_type="prelu", name="pr"),
            sym.smooth_l1(x, scalar=2.0),
            sym.log_softmax(x, axis=0, temperature=2.0),
            sym.softmax(x, temperature=None),
            sym.L2Normalization(x, mode="instance"),
            sym.LayerNorm(x, axis=-1, eps=0.0001, name="ln"),
            sym.InstanceNorm(sym.expand_dims(x, axis=2), name="inn"),
        ]
    )


def rnn():
    x = sym.Variable("x")
    return sym.RNN(
        x,
        sym.Variable("p"),
        sym.Variable("s"),
        sym.Variable("c"),
        state_size=3,
        num_layers=2,
        mode="lstm",
        bidirectional=True,
        p=0.0,
        state_outputs=True,
        name="rnn",
    )


def lstm():
    x = sym.Variable("data")
    e = sym.Embedding(x, input_dim=9, output_dim=4, name="e")
    h = sym.Variable("h0")
    c = sym.Variable("c0")
    W = sym.Variable("W")
    outs = []
    steps = sym.SliceChannel(e, num_outputs=3, axis=1, squeeze_axis=True)
    for t in range(3):
        g = sym.FullyConnected(sym.concat(steps[t], h, dim=1), W, num_hidden=12, no_bias=True, name=f"g{t}")
        i, f, o, u = sym.split(g, num_outputs=4, axis=1)
        c = sym.sigmoid(f) * c + sym.sigmoid(i) * sym.tanh(u)
        h = sym.sigmoid(o) * sym.tanh(c)
        outs.append(h)
    return sym.stack(*outs, axis=1)


def losses():
    x = sym.Variable("x")
    label = sym.Variable("l")
    return sym.Group(
        [
            sym.LinearRegressionOutput(x, label, grad_scale=2.0),
            sym.LogisticRegressionOutput(x, label),
            sym.MAERegressionOutput(x, label),
            sym.MakeLoss(sym.square(x - label), grad_scale=0.5, normalization="batch"),
            sym.BlockGrad(x),
            sym.softmax_cross_entropy(x, sym.argmax(label, axis=1)),
            sym.SVMOutput(x, sym.argmax(label, axis=1), margin=0.5, use_linear=True),
            sym.make_loss(x),
            sym.identity(x),
            sym.smooth_l1(x),
        ]
    )


def linear():
    a = sym.Variable("a")
    b = sym.Variable("b")
    return sym.Group(
        [
            sym.dot(a, b, transpose_b=True),
            sym.batch_dot(sym.expand_dims(a, axis=0), sym.expand_dims(b, axis=0), transpose_b=True),
            sym.linalg.gemm2(a, b, transpose_b=True, alpha=2.0),
            sym.linalg.syrk(a, alpha=0.5),
            sym.broadcast_to(sym.expand_dims(a, axis=0), shape=(3, 0, 0)),
            sym.broadcast_axis(sym.expand_dims(a, axis=0), axis=0, size=2),
            sym.broadcast_like(sym.slice_axis(a, axis=0, begin=0, end=1), b),
            sym.reshape_like(a, b),
            sym.slice_like(a, b, axes=(0,)),
            sym.add_n(a, b, a),
            sym.gather_nd(a, sym.cast(sym.zeros((2, 1)), dtype="int32")),
            sym.shape_array(a),
            sym.diag(a),
            sym.cumsum(a, axis=1),
        ]
    )


def attrs():
    with AttrScope(__force_mirroring__="True", __group__="4"):
        x = sym.Variable("x", attr={"mood": "angry"})
        c = sym.Convolution(
            data=x,
            name="conv",
            kernel=(1, 1),
            num_filter=1,
            attr={"__mood__": "so so", "__wd_mult__": "0.1"},
            lr_mult=1.0,
            workspace=512,
            cudnn_tune="off",
            layout="NCHW",
            cudnn_off=True,
        )
    c._set_attr(__after__="yes")
    return c


def prefix():
    with Prefix("net_"):
        x = sym.Variable("x")
        return sym.Activation(sym.FullyConnected(x, num_hidden=2, flatten=False), act_type="softsign")


def oddnames():
    x = sym.Variable('a b/c "q"')
    return sym.exp(x, name="sp ace") + 1


def random():
    return sym.Group(
        [
            sym.random.normal(0, 1, shape=(2, 3)),
            sym.random.uniform(low=0, high=2, shape=(2,), dtype="float32"),
            sym.sample_multinomial(sym.Variable("p")),
            sym.random.poisson(3.0, shape=2),
        ]
    )
