# SPDX-License-Identifier: Apache-2.0
"""Batch normalisation in inference: folded into layers, scale and shift elsewhere, never stale."""

import numpy as np
import pytest

from mx_core.graph import PREPARED
from mx_ndarray import nd
from mx_symbol import CachedOp, sym


def convolutional(bias, layout=None, fix_gamma=False):
    x = sym.Variable("data")
    axis = 1 if layout is None else 3
    x = sym.Convolution(x, kernel=(3, 3), num_filter=4, no_bias=not bias, layout=layout, name="conv")
    return sym.Activation(sym.BatchNorm(x, fix_gamma=fix_gamma, axis=axis, name="bn"), act_type="relu")


def dense(bias):
    x = sym.FullyConnected(sym.Variable("data"), num_hidden=4, no_bias=not bias, name="fc")
    return sym.BatchNorm(x, fix_gamma=False, name="bn")


def alone():
    return sym.exp(sym.BatchNorm(sym.tanh(sym.Variable("data")), fix_gamma=False, name="bn"))


CASES = {
    "convolution": (convolutional(False), (2, 3, 8, 8)),
    "biased convolution": (convolutional(True), (2, 3, 8, 8)),
    "fixed gamma": (convolutional(True, fix_gamma=True), (2, 3, 8, 8)),
    "channels last": (convolutional(True, "NHWC"), (2, 8, 8, 3)),
    "dense": (dense(True), (5, 6)),
    "dense without bias": (dense(False), (5, 6)),
    "alone": (alone(), (2, 3, 4, 5)),
}


def filled(executor, seed=0):
    """The executor with random parameters."""
    rng = np.random.default_rng(seed)
    for name, array in {**executor.arg_dict, **executor.aux_dict}.items():
        values = rng.standard_normal(array.shape)
        array[:] = np.abs(values) + 0.5 if "var" in name else values
    return executor


@pytest.mark.parametrize("case", CASES)
def test_the_same_values_without_the_operator(case):
    net, shape = CASES[case]
    folded, plain = (filled(net.simple_bind(passes=p, data=shape)) for p in ("all", "none"))
    np.testing.assert_allclose(
        folded.forward()[0].asnumpy(), plain.forward()[0].asnumpy(), rtol=1e-4, atol=1e-5
    )
    assert "BatchNorm" in [n.op.name for n in plain.nodes(False)]
    running = [n.op.name for n in folded.nodes(False) if PREPARED not in n.attrs]
    assert "BatchNorm" not in running and len(set(running) - {"transpose"}) == 1


def test_training_keeps_the_operator_and_updates_its_statistics():
    net, shape = CASES["convolution"]
    executor = filled(net.simple_bind(data=shape))
    before = executor.aux_dict["bn_moving_mean"].asnumpy()
    executor.forward(is_train=True)
    assert (executor.aux_dict["bn_moving_mean"].asnumpy() != before).any()
    assert "BatchNorm" in [n.op.name for n in executor.nodes(True)]


def test_a_written_parameter_counts_at_the_next_run():
    net, shape = CASES["convolution"]
    folded, plain = (filled(net.simple_bind(grad_req="null", passes=p, data=shape)) for p in ("all", "none"))
    for name in ("conv_weight", "bn_gamma", "bn_beta"):
        for executor in (folded, plain):
            executor.forward()
            executor.arg_dict[name][:] = executor.arg_dict[name] * 2 + 0.1
        np.testing.assert_allclose(
            folded.forward()[0].asnumpy(), plain.forward()[0].asnumpy(), rtol=1e-4, atol=1e-5
        )
    for executor in (folded, plain):
        executor.aux_dict["bn_moving_var"][:] = 4
    np.testing.assert_allclose(
        folded.forward()[0].asnumpy(), plain.forward()[0].asnumpy(), rtol=1e-4, atol=1e-5
    )


def test_a_cached_operator_follows_the_arrays_it_is_given():
    net, shape = CASES["biased convolution"]
    op = CachedOp(net)
    for seed in (1, 2, 1):
        executor = filled(net.simple_bind(grad_req="null", passes="none", data=shape), seed)
        arrays = {**executor.arg_dict, **executor.aux_dict}
        for _ in range(2):
            found = op(*(arrays[name] for name in op.input_names))
            np.testing.assert_allclose(found.asnumpy(), executor.forward()[0].asnumpy(), rtol=1e-4, atol=1e-5)
        nd.waitall()


def test_statistics_that_are_read_keep_the_operator():
    x = sym.BatchNorm(sym.Variable("data"), output_mean_var=True, name="bn")
    executor = filled(sym.Group([x[0], x[1]]).simple_bind(data=(2, 3)))
    assert "BatchNorm" in [n.op.name for n in executor.nodes(False)]


def test_without_eps_nothing_is_folded():
    """A scale of 1 / 0 times weights of both signs is NaN where the operator gives infinities."""
    x = sym.Convolution(sym.Variable("data"), kernel=(2, 2), num_filter=3, no_bias=True, name="conv")
    net = sym.BatchNorm(x, eps=0, fix_gamma=False, name="bn")
    folded, plain = (filled(net.simple_bind(passes=p, data=(1, 2, 5, 5))) for p in ("all", "none"))
    for executor in (folded, plain):
        executor.aux_dict["bn_moving_var"][0:1] = 0
    np.testing.assert_allclose(folded.forward()[0].asnumpy(), plain.forward()[0].asnumpy(), rtol=1e-5)
    assert "BatchNorm" in [n.op.name for n in folded.nodes(False)]


@pytest.mark.parametrize(
    ("dtype", "mean"),
    [
        ("float32", 1e3),
        ("float32", 1e5),
        ("float32", 1e7),
        ("float16", 1e3),
        ("bfloat16", 1e3),
        ("bfloat16", 1e7),
    ],
)
@pytest.mark.parametrize("fix_gamma", [False, True])
def test_digits_stay_where_the_mean_is_far_from_zero(dtype, mean, fix_gamma):
    net = sym.BatchNorm(sym.Variable("data", dtype=dtype), fix_gamma=fix_gamma, eps=1e-5, name="bn")
    executor = filled(net.simple_bind(grad_req="null", data=(64, 5)))
    noise = np.random.default_rng(1).standard_normal((64, 5))
    executor.arg_dict["data"][:] = mean + noise * (1 if dtype == "float32" else mean / 100)
    executor.aux_dict["bn_moving_mean"][:] = mean * 1.001
    arrays = [*executor.arg_dict.values(), *executor.aux_dict.values()]
    direct = nd.BatchNorm(*arrays, fix_gamma=fix_gamma, eps=1e-5).astype("float32").asnumpy()
    found = executor.forward()[0].astype("float32").asnumpy()
    rtol = {"float32": 1e-6, "float16": 2e-3, "bfloat16": 1e-2}[dtype]
    np.testing.assert_allclose(found, direct, rtol=rtol, atol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_one_kernel_applies_a_norm_and_its_neighbours(dtype):
    x = sym.BatchNorm(sym.tanh(sym.Variable("data", dtype=dtype)), fix_gamma=False, name="bn")
    executor = sym.exp(x).simple_bind(data=(2, 3, 4, 5))
    assert [n.op.name for n in executor.nodes(False) if PREPARED not in n.attrs] == ["_fused"]
