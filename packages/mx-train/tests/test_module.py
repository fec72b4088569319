# SPDX-License-Identifier: Apache-2.0
import logging
from collections import namedtuple
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core import cpu
from mx_core.errors import ArgumentError, FileFormatError, MXNetError, ShapeError
from mx_io import io
from mx_ndarray import nd, random
from mx_symbol import sym
from mx_train import callback, initializer, metric, model, optimizer
from mx_train.module import Module
from mx_train.module.optimization import runs_in

DATA = Path(__file__).parent / "data"


def network(classes: int = 3) -> Any:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=16, name="fc1")
    net = sym.FullyConnected(sym.Activation(net, act_type="relu"), num_hidden=classes, name="fc2")
    return sym.SoftmaxOutput(net, name="softmax")


def problem(n: int = 300) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 8)).astype(np.float32)
    return x, (x @ rng.normal(size=(8, 3))).argmax(1).astype(np.float32)


def fitted(kvstore: Any = "local", context: Any = None, **settings: Any) -> tuple[Module, Any]:
    random.seed(1)
    x, y = problem()
    module = Module(network(), context=context)
    module.fit(
        io.NDArrayIter(x, y, 30, shuffle=False), num_epoch=8, kvstore=kvstore, initializer=initializer.Xavier(),
        optimizer="sgd", optimizer_params={"learning_rate": 0.3, "momentum": 0.9}, **settings,
    )  # fmt: skip
    return module, io.NDArrayIter(x, y, 40)


def test_shapes_that_need_other_parameters_are_refused() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params()
    with pytest.raises(ShapeError, match=r"of shape \(16, 9\); it has \(16, 8\), for data of \[\(4, 8\)\]: "):
        module.reshape([("data", (4, 9))], [("softmax_label", (4,))])
    module.forward(io.DataBatch([nd.ones((4, 8))], [nd.zeros((4,))]), is_train=False)
    assert module.get_outputs()[0].shape == (4, 3)


def test_casts_of_mixed_precision_are_not_saved_unless_asked_for(tmp_path: Path) -> None:
    net = sym.amp_cast(sym.Variable("data"), dtype="float16") * 2
    saved = []
    for options in ({}, {"remove_amp_cast": True}, {"remove_amp_cast": False}):
        model.save_checkpoint(str(tmp_path / "net"), 1, net, {}, {}, **options)
        saved.append((tmp_path / "net-symbol.json").read_text())
    assert saved[0] == saved[1] and ["amp_cast" in text for text in saved] == [False, False, True]


@pytest.mark.parametrize("kvstore", ["local", "device", None])
def test_fit_learns(kvstore: Any) -> None:
    module, data = fitted(kvstore)
    ((name, value),) = module.score(data, "acc")
    assert name == "accuracy" and value > 0.95


def test_two_contexts_give_what_one_gives() -> None:
    one, data = fitted()
    two, _ = fitted(context=[cpu(0), cpu(1)])
    for a, b in zip(one.get_params()[0].items(), two.get_params()[0].items(), strict=True):
        np.testing.assert_allclose(a[1].asnumpy(), b[1].asnumpy(), rtol=1e-3, atol=1e-4)


def test_a_metric_that_names_an_output_is_right_where_the_last_batch_is_padded() -> None:
    net = network()
    features = sym.BlockGrad(net.get_internals()["fc1_output"], name="features")
    module = Module(sym.Group([net, features]))
    x, y = problem(50)
    data = io.NDArrayIter(x, y, 20)
    module.bind(data.provide_data, data.provide_label, for_training=False)
    module.init_params(initializer.Xavier())
    accuracy = metric.Accuracy(output_names=["softmax_output"], label_names=["softmax_label"])
    ((_, score),) = module.score(data, accuracy)
    assert score == pytest.approx(np.mean(module.predict(data)[0].asnumpy().argmax(1) == y))


def test_data_without_labels_is_told_which_is_missing() -> None:
    module, data = Module(network()), io.NDArrayIter(np.zeros((8, 8), np.float32), batch_size=4)
    with pytest.raises(
        ArgumentError, match=r"0 labels for 1 predictions\n\[Module\] the data has no label 'softmax_label'$"
    ) as caught:
        module.fit(data, num_epoch=1)
    assert type(caught.value) is ArgumentError and caught.value.__cause__ is None
    assert module.predict(data).shape[0] == 8


class NoRate(ArgumentError):
    """An error of a program's own."""

    def __init__(self, rate: float) -> None:
        super().__init__(f"rate {rate} is too small")
        self.rate = rate


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("error", [NoRate(0.5), IndexError("list index out of range")])
def test_errors_of_metrics_stay_what_they_are(labelled: bool, error: Exception) -> None:
    class Failing(metric.EvalMetric):
        def update(self, labels: object, preds: object) -> None:
            raise error

    error.__notes__ = []  # type: ignore[attr-defined]
    module, x = Module(network()), np.zeros((8, 8), np.float32)
    data = io.NDArrayIter(x, np.zeros(8) if labelled else None, batch_size=4)
    with pytest.raises(type(error)) as caught:
        module.fit(data, num_epoch=1, eval_metric=Failing("failing"))
    assert caught.value is error
    assert error.__notes__ == ([] if labelled else ["[Module] the data has no label 'softmax_label'"])


def test_score_takes_batches_that_have_data_and_labels_only() -> None:
    class Batches(list):
        def reset(self) -> None:
            pass

    batch = namedtuple("batch", ["data", "label"])
    x, y = problem(40)
    module = Module(network())
    module.bind([("data", (20, 8))], [("softmax_label", (20,))], for_training=False)
    module.init_params(initializer.Xavier())
    given = Batches(batch([nd.array(x[i : i + 20])], [nd.array(y[i : i + 20])]) for i in (0, 20))
    assert module.score(given, "acc")[0][0] == "accuracy"


def test_score_and_predict_leave_padding_out() -> None:
    module, data = fitted()
    assert module.predict(data).shape == (300, 3)
    x, y = problem()
    whole = (module.predict(io.NDArrayIter(x, y, 300)).asnumpy().argmax(1) == y).mean()
    assert module.score(data, "acc")[0][1] == pytest.approx(whole)


def test_checkpoint_predicts_the_same(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    module, data = fitted()
    before = module.predict(data).asnumpy()
    with caplog.at_level(logging.INFO):
        module.save_checkpoint(str(tmp_path / "m"), 8, save_optimizer_states=True)
    assert caplog.messages == [
        f'Saved checkpoint to "{tmp_path}/m-0008.params"',
        f'Saved optimizer state to "{tmp_path}/m-0008.states"',
    ]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m-0008.params", "m-0008.states", "m-symbol.json"]
    loaded = Module.load(str(tmp_path / "m"), 8)
    loaded.bind(data.provide_data, data.provide_label, for_training=False)
    np.testing.assert_array_equal(loaded.predict(data).asnumpy(), before)


def test_training_resumes_from_optimizer_states(tmp_path: Path) -> None:
    x, y = problem()
    straight = Module(network())
    common: dict[str, Any] = {"optimizer": "adam", "optimizer_params": {"learning_rate": 0.01}}
    start = {n: nd.array(np.full(s, 0.02, np.float32) * np.arange(1, np.prod(s) + 1).reshape(s) / np.prod(s))
             for n, s in zip(network().list_arguments(), network().infer_shape(data=(30, 8))[0], strict=True)
             if n not in ("data", "softmax_label")}  # fmt: skip
    straight.fit(io.NDArrayIter(x, y, 30), arg_params=start, num_epoch=4, **common)
    first = Module(network())
    first.fit(io.NDArrayIter(x, y, 30), arg_params=start, num_epoch=2, **common)
    first.save_checkpoint(str(tmp_path / "m"), 2, save_optimizer_states=True)
    second = Module.load(str(tmp_path / "m"), 2, load_optimizer_states=True)
    second.fit(io.NDArrayIter(x, y, 30), num_epoch=4, begin_epoch=2, **common)
    for name, array in straight.get_params()[
        0
    ].items():  # the same bits: adam corrects by the number of updates
        assert array.asnumpy().tobytes() == second.get_params()[0][name].asnumpy().tobytes(), name


def test_a_checkpoint_of_a_network_without_parameters(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """MXNet writes such a file for Gluon's `export`; it has no names, and is no list either."""
    model.save_checkpoint(str(tmp_path / "n"), 0, sym.relu(sym.var("data"), name="r"), {}, {})
    assert len(nd.load(str(tmp_path / "n-0000.params"))) == 0
    with caplog.at_level(logging.WARNING):
        graph, *values = model.load_checkpoint(str(tmp_path / "n"), 0)
    assert graph.list_arguments() == ["data"] and values == [{}, {}]
    assert "no parameters are in it" in caplog.text


def test_checkpoint_of_mxnet_predicts_what_it_recorded() -> None:
    truth = np.load(DATA / "lenet_truth.npz")
    module = Module.load(str(DATA / "lenet"), 3)
    data = truth["data"]
    module.bind([("data", data.shape)], [("softmax_label", (data.shape[0],))], for_training=False)
    np.testing.assert_allclose(module.predict(nd.array(data)).asnumpy(), truth["pred"], atol=1e-5)


def test_attributes_that_scripts_read_are_those_of_mxnet() -> None:
    """`bind(..., label_shapes=module._label_shapes)` is how MXNet's examples predict."""
    module = Module(network(), context=[cpu(0), cpu(1)])
    assert module._context == [cpu(0), cpu(1)]
    assert module._label_shapes is module._data_shapes is module._exec_group is None
    assert module._optimizer is module._kvstore is module._updater is None
    module.bind(data_shapes=[("data", (4, 8))], label_shapes=[("softmax_label", (4,))])
    assert module._data_shapes == module.data_shapes and module._label_shapes == module.label_shapes
    assert module._exec_group is not None and len(module._exec_group.execs) == 2
    predicting = Module(network(), label_names=None)
    predicting.bind(
        for_training=False, data_shapes=module._data_shapes, label_shapes=predicting._label_shapes
    )
    assert predicting._label_shapes is None and predicting.label_shapes == []
    module.init_params()
    module.get_params()
    assert sorted(module._arg_params) == ["fc1_bias", "fc1_weight", "fc2_bias", "fc2_weight"]
    assert module._aux_params == {} and module._symbol is module.symbol
    predicting.set_params(module._arg_params, module._aux_params, allow_missing=True)
    predicting.forward(io.DataBatch([nd.ones((4, 8))]))
    assert predicting.get_outputs()[0].shape == (4, 3)


def test_batches_of_another_size_rebind() -> None:
    module, _ = fitted()
    module.forward(io.DataBatch([nd.ones((7, 8))], None), is_train=False)
    assert module.get_outputs()[0].shape == (7, 3)


def test_contexts_share_their_running_statistics_after_an_epoch() -> None:
    x, y = problem(60)
    x *= np.linspace(1, 9, 60)[:, None]
    net = sym.BatchNorm(sym.Variable("data"), momentum=0.5, name="bn")
    net = sym.SoftmaxOutput(sym.FullyConnected(net, num_hidden=3), name="softmax")
    module = Module(net, context=[cpu(0), cpu(1)])
    module.fit(io.NDArrayIter(x, y, 30), num_epoch=1)
    means = [executor.aux_dict["bn_moving_mean"].asnumpy() for executor in module._bound().execs]
    np.testing.assert_array_equal(*means)
    np.testing.assert_array_equal(means[0], module.get_params()[1]["bn_moving_mean"].asnumpy())


def test_an_initializer_is_no_name() -> None:
    module = Module(network())
    module.bind([("data", (30, 8))], [("softmax_label", (30,))])
    with pytest.raises(TypeError, match="expected an Initializer, got 'xavier'; mx.init.create makes one"):
        module.init_params("xavier")  # type: ignore[arg-type]


def test_a_batch_has_ndarrays() -> None:
    module, _ = fitted()
    with pytest.raises(TypeError, match=r"\[Module\] 'data': expected an NDArray, got ndarray"):
        module.forward(io.DataBatch([np.ones((30, 8))], None), is_train=False)


def test_fixed_parameters_stay() -> None:
    x, y = problem(60)
    module = Module(network(), fixed_param_names=["fc1_weight"])
    module.bind([("data", (30, 8))], [("softmax_label", (30,))])
    module.init_params(initializer.Xavier())
    before = module.get_params()[0]["fc1_weight"].asnumpy()
    module.init_optimizer()
    for batch in io.NDArrayIter(x, y, 30):
        module.forward_backward(batch)
        module.update()
    after = module.get_params()[0]
    np.testing.assert_array_equal(after["fc1_weight"].asnumpy(), before)
    assert (after["fc2_weight"].asnumpy() != 0).any()


def test_parameters_set_after_the_optimizer_are_those_that_train() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params(initializer.Xavier())
    module.init_optimizer(optimizer_params={"learning_rate": 0.0})
    module.set_params({n: v + 1 for n, v in module.get_params()[0].items()}, {})
    expected = module.get_params()[0]["fc1_weight"].asnumpy()
    module.forward_backward(io.DataBatch([nd.ones((4, 8))], [nd.zeros((4,))]))
    module.update()
    np.testing.assert_array_equal(module.get_params()[0]["fc1_weight"].asnumpy(), expected)


def test_requests_survive_batches_of_another_size() -> None:
    grads = []
    for sizes in ([4, 4], [4, 2, 4]):
        module = Module(network())
        module.bind([("data", (4, 8))], [("softmax_label", (4,))], grad_req="add")
        module.init_params(arg_params=dict(zip(module._param_names, PARAMS, strict=True)))
        for size in sizes:
            module.forward(io.DataBatch([nd.ones((size, 8))], [nd.zeros((size,))]), is_train=size == 4)
            if size == 4:
                module.backward()
        grads.append(module._bound().arrays(["fc2_bias"], "grad_dict")[0][0].asnumpy())
    np.testing.assert_allclose(grads[1], grads[0], rtol=1e-6)


PARAMS = [nd.ones((16, 8)) * 0.1, nd.zeros((16,)), nd.ones((3, 16)) * 0.1, nd.zeros((3,))]


def test_unwanted_gradients_leave_parameters_alone() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))], grad_req={"fc1_weight": "null"})
    module.init_params(arg_params=dict(zip(module._param_names, PARAMS, strict=True)))
    module.init_optimizer(optimizer_params={"learning_rate": 1.0})
    module.forward_backward(io.DataBatch([nd.ones((4, 8))], [nd.zeros((4,))]))
    module.update()
    after, _ = module.get_params()
    assert (after["fc1_weight"].asnumpy() == PARAMS[0].asnumpy()).all()
    assert (after["fc2_bias"].asnumpy() != 0).all()


def test_time_major_batches_are_cut_along_their_axis() -> None:
    """A sequence of 3 steps and 4 examples, (T, N, C), on one context and on two."""
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=2, flatten=False, no_bias=True, name="fc")
    net = sym.MakeLoss(sym.square(net - sym.Variable("label")), name="out")
    net._set_attr(__layout__="TNC")
    rng = np.random.default_rng(0)
    x, y = nd.array(rng.normal(size=(3, 4, 5))), nd.array(rng.normal(size=(3, 4, 2)))
    found = []
    for contexts in ([cpu()], [cpu(0), cpu(1)]):
        module = Module(net, label_names=["label"], context=contexts)
        module.bind(
            [io.DataDesc("data", x.shape, layout="TNC")], [io.DataDesc("label", y.shape, layout="TNC")]
        )
        module.init_params(arg_params={"fc_weight": nd.ones((2, 5)) * 0.2})
        module.init_optimizer(optimizer_params={"learning_rate": 0.5})
        assert module._optimizer is not None and module._optimizer.rescale_grad == 1 / 4
        module.forward_backward(io.DataBatch([x], [y]))
        module.update()
        found.append((module.get_outputs()[0].asnumpy(), module.get_params()[0]["fc_weight"].asnumpy()))
        assert len(module.get_outputs(merge_multi_context=False)[0]) == len(contexts)
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=1e-5)


def test_shares_of_a_batch() -> None:
    module = Module(network(), context=[cpu(0), cpu(1), cpu(2)], work_load_list=[1, 2, 5])
    module.bind([("data", (8, 8))], [("softmax_label", (8,))])
    assert [e.arg_dict["data"].shape[0] for e in module._bound().execs] == [1, 2, 5]
    module = Module(network(), context=[cpu(0), cpu(1), cpu(2)], work_load_list=[0.01, 0.01, 5])
    module.bind([("data", (8, 8))], [("softmax_label", (8,))])
    assert [e.arg_dict["data"].shape[0] for e in module._bound().execs] == [1, 1, 6], "nobody gets nothing"
    with pytest.raises(ShapeError, match="a batch of 2 for 3 contexts"):
        module.reshape([("data", (2, 8))], [("softmax_label", (2,))])


def test_states_go_from_batch_to_batch() -> None:
    state = sym.Variable("state")
    net = sym.Group([sym.BlockGrad(state + 1, name="next"), sym.MakeLoss(sym.Variable("data") * state)])
    module = Module(net, label_names=[], state_names=["state"], context=[cpu(0), cpu(1)])
    module.bind([("data", (4, 2))])
    module.init_params()
    module.set_states(value=3)
    module.forward(io.DataBatch([nd.ones((4, 2))]))
    module.set_states(module.get_outputs(merge_multi_context=False)[:1])
    assert module.get_states()[0].asnumpy().tolist() == [[4, 4]] * 4
    with pytest.raises(ArgumentError, match="one of both"):
        module.set_states()
    with pytest.raises(ArgumentError, match="expected 1 states, got 2"):
        module.set_states([[], []])


def test_an_optimizer_made_outside_that_scales_otherwise_is_warned_of() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params()
    module.init_optimizer(optimizer=optimizer.SGD(rescale_grad=0.25))
    with pytest.warns(
        UserWarning, match=r"rescale_grad of the given optimizer is 1\.0; .* is 0\.25"
    ) as caught:
        module.init_optimizer(optimizer=optimizer.SGD(), force_init=True)
    assert caught[0].filename == __file__


def test_an_optimizer_made_outside_learns_the_names() -> None:
    made = optimizer.create("sgd", learning_rate=1.0, rescale_grad=1.0)
    made.set_lr_mult({"fc1_weight": 0.0})
    module = Module(network(), fixed_param_names=["fc1_bias"])
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    module.init_params(arg_params=dict(zip(module._param_names, PARAMS, strict=True)))
    with pytest.warns(UserWarning, match="rescale_grad"):
        module.init_optimizer(optimizer=made)
    module.forward_backward(io.DataBatch([nd.ones((4, 8))], [nd.zeros((4,))]))
    module.update()
    assert (module.get_params()[0]["fc1_weight"].asnumpy() == PARAMS[0].asnumpy()).all()
    assert sorted(module._updater.states) == [0, 2, 3]  # as MXNet numbers them, fixed ones included


def test_further_parameters_are_left_out_where_an_initializer_fills_the_rest() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    given = {"fc1_bias": nd.ones((16,)), "old_weight": nd.ones((2,))}
    module.init_params(initializer.Xavier(), arg_params=given, allow_missing=True)
    assert (module.get_params()[0]["fc1_bias"].asnumpy() == 1).all()
    with pytest.raises(ArgumentError, match="of the symbol: old_weight; allow_extra=True leaves them out"):
        module.set_params(given, {}, allow_missing=True)


def test_parameters_of_a_larger_network_fill_a_part_of_it() -> None:
    net = network()
    features = Module(net.get_internals()["fc1_output"], label_names=None)
    features.bind([("data", (4, 8))], for_training=False)
    features.set_params(dict(zip(Module(net)._param_names, PARAMS, strict=True)), {})
    assert sorted(features.get_params()[0]) == ["fc1_bias", "fc1_weight"]
    said = "'fc1_bias' is not among the given parameters; allow_missing=True"
    with pytest.raises(ArgumentError, match=f"{said} keeps its value$"):
        features.set_params({"fc1_weight": PARAMS[0]}, {})
    with pytest.raises(ArgumentError, match=f"{said} leaves it to the initializer$"):
        features.init_params(initializer.Xavier(), {"fc1_weight": PARAMS[0]}, {}, force_init=True)


def test_input_gradients() -> None:
    module = Module(network())
    module.bind([("data", (4, 8))], [("softmax_label", (4,))], inputs_need_grad=True)
    module.init_params(initializer.Xavier())
    module.forward_backward(io.DataBatch([nd.ones((4, 8))], [nd.zeros((4,))]))
    (grad,) = module.get_input_grads()
    assert grad.shape == (4, 8) and (grad.asnumpy() != 0).any()


def test_callbacks_see_every_batch(caplog: pytest.LogCaptureFixture) -> None:
    seen: list[tuple[int, int]] = []
    with caplog.at_level(logging.INFO):
        fitted(
            batch_end_callback=[
                lambda p: seen.append((p.epoch, p.nbatch)), callback.Speedometer(30, 4), callback.ProgressBar(10),
            ]
        )  # fmt: skip
    assert seen == [(e, b) for e in range(8) for b in range(10)]
    assert "samples/sec" in caplog.text and "Train-accuracy" in caplog.text


def test_mistakes_are_explained(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"\[Module.fit\] train_data: expected a DataIter, got None"):
        Module(network()).fit(None, num_epoch=1)
    with pytest.raises(ArgumentError, match=r"context: expected at least one context, got \[\]"):
        Module(network(), context=[])
    with pytest.raises(ArgumentError, match="data name 'image' is not an argument; there are data"):
        Module(network(), data_names=["image"])
    module = Module(network())
    with pytest.raises(MXNetError, match="call bind first"):
        module.init_params()
    module.bind([("data", (4, 8))], [("softmax_label", (4,))])
    with pytest.raises(ArgumentError, match="'fc1_weight': expected shape"):
        module.init_params(arg_params={"fc1_weight": nd.ones((2, 2))}, allow_missing=True)
    module.init_params(initializer.Xavier(), force_init=True)
    with pytest.raises(ShapeError):
        module.forward(io.DataBatch([nd.ones((4, 9))], [nd.ones((4,))]), is_train=False)
    with pytest.raises(ArgumentError, match="num_epoch"):
        module.fit(io.NDArrayIter(*problem(30), 30))
    nd.save(str(tmp_path / "x-0001.params"), {"weight": nd.ones((1,))})
    with pytest.raises(FileFormatError, match="expected names arg"):
        model.load_params(str(tmp_path / "x"), 1)


def test_a_batch_needs_data_alone() -> None:
    module, data = fitted()
    plain = Module(module.symbol)
    plain.bind([("data", (40, 8))], for_training=False)
    plain.set_params(*module.get_params())
    plain.forward(namedtuple("Batch", ["data"])([nd.array(problem()[0][:40])]))
    first = plain.get_outputs()[0].asnumpy()
    every = plain.predict(data).asnumpy()  # the iterator has labels, which nobody asked for
    np.testing.assert_array_equal(every[:40], first)
    np.testing.assert_array_equal(every, module.predict(data).asnumpy())


def test_a_label_of_another_name_is_named() -> None:
    data = io.NDArrayIter(np.zeros((8, 5)), np.zeros(8), 4, label_name="lab")
    with pytest.raises(ArgumentError, match="nothing takes 'lab', and 'softmax_label' is missing"):
        Module(network()).fit(data, num_epoch=1)


class Summing(mx_kvstore.KVStoreBase):
    """A store of three workers that does no more than the contract asks: it stands for gradients of all."""

    type, rank, num_workers = "dist_acme_sync", 0, 3

    def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
        for array in out:
            value.copyto(array)

    def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
        total = nd.add_n(*value) * self.num_workers
        for array in value if out is None else out:
            total.copyto(array)


@pytest.mark.parametrize("contexts", [[cpu()], [cpu(0), cpu(1)]])
def test_any_store_that_keeps_the_contract_trains(contexts: list[Any]) -> None:
    """Of three workers with the same batch the sum is scaled by 1 / (3 · batch): as if there was one."""
    x, y = problem(60)
    weights = []
    for store in (None, Summing()):
        random.seed(3)
        np.random.seed(3)
        module = Module(network(), context=contexts)
        data = io.NDArrayIter(x, y, 30)
        module.fit(data, num_epoch=2, kvstore=store, optimizer_params={"learning_rate": 0.1, "momentum": 0.9})
        weights.append({name: array.asnumpy() for name, array in module.get_params()[0].items()})
    for name, array in weights[0].items():
        np.testing.assert_allclose(weights[1][name], array, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kvstore", ["devise", "locall"])
def test_an_unknown_store_is_refused_with_one_context_too(kvstore: str) -> None:
    with pytest.raises(ArgumentError, match=rf"unknown kvstore {kvstore!r}; .* Did you mean "):
        fitted(kvstore)


@pytest.mark.parametrize("kvstore", ["local", "device"])
def test_a_setting_keeps_the_optimizer_out_of_the_store(
    kvstore: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    contexts, weights = [cpu(0), cpu(1)], []
    for setting, in_store in (("1", True), ("0", False)):
        monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", setting)
        random.seed(3)
        np.random.seed(3)
        module, _ = fitted(kvstore, contexts)
        assert module._update_on_kvstore is in_store
        weights.append({name: array.asnumpy() for name, array in module.get_params()[0].items()})
        module.save_optimizer_states(str(tmp_path / "states"))
        module.load_optimizer_states(str(tmp_path / "states"))
    for name, array in weights[0].items():
        np.testing.assert_allclose(weights[1][name], array, rtol=1e-5, atol=1e-7)
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "no")
    with pytest.raises(ArgumentError, match=r"\[MXNET_UPDATE_ON_KVSTORE\] expected 0 or 1, got 'no'"):
        fitted(kvstore, contexts)


class Described(mx_kvstore.KVStore):
    """A store that runs optimizers and has any type."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    @property
    def type(self) -> str:
        return self.name


@pytest.mark.parametrize(
    ("name", "elements", "setting", "expected"),
    [
        ("local", 1 << 24, "1", True), ("local", (1 << 24) + 1, "1", False), ("device", 1 << 25, "1", True),
        ("dist_sync", 5, "0", False), ("dist_async", 5, "0", True),
    ],
)  # fmt: skip
def test_where_the_optimizer_runs(
    name: str, elements: int, setting: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", setting)
    assert runs_in(Described(name), [3, elements]) is expected


def test_states_of_an_optimizer_that_runs_in_the_store(tmp_path: Path) -> None:
    module, _ = fitted("local", [cpu(0), cpu(1)])
    module.save_optimizer_states(str(tmp_path / "a.states"))
    module.load_optimizer_states(str(tmp_path / "a.states"))
    module.save_optimizer_states(str(tmp_path / "b.states"))
    assert (tmp_path / "a.states").read_bytes() == (tmp_path / "b.states").read_bytes()


def test_a_module_without_parameters_gives_and_saves_none(tmp_path: Path) -> None:
    net = sym.FullyConnected(sym.Variable("data"), num_hidden=3)
    with pytest.raises(MXNetError, match="call bind first"):
        Module(net, label_names=None).get_params()
    with pytest.raises(MXNetError, match="call bind first"):
        Module(net, label_names=None).save_checkpoint(str(tmp_path / "net"), 1)
    assert not list(tmp_path.glob("*.params"))


def test_parameters_that_stay_although_others_are_wanted_are_warned_of(tmp_path: Path) -> None:
    x, y = problem(30)
    module = Module(network())
    module.fit(io.NDArrayIter(x, y, 30), num_epoch=1)
    before = {name: array.asnumpy() for name, array in module.get_params()[0].items()}
    ignored = r"\[Module.init_params\] ignored: parameters are initialized already, and force_init is False"
    for again in (
        lambda: module.fit(io.NDArrayIter(x, y, 30), num_epoch=0),
        lambda: module.init_params(initializer.One()),
        lambda: module.set_params({}, {}, force_init=False),
    ):
        with pytest.warns(UserWarning, match=ignored):
            again()
    assert all((before[name] == array.asnumpy()).all() for name, array in module.get_params()[0].items())
    module.fit(io.NDArrayIter(x, y, 30), num_epoch=0, force_init=True, initializer=initializer.One())
    assert (module.get_params()[0]["fc1_weight"].asnumpy() == 1).all()

    module.save_checkpoint(str(tmp_path / "m"), 1)
    loaded = Module.load(str(tmp_path / "m"), 1)
    loaded.fit(io.NDArrayIter(x, y, 30), num_epoch=2, begin_epoch=1)  # goes on, as it should
    with pytest.warns(UserWarning, match=ignored):
        loaded.fit(io.NDArrayIter(x, y, 30), num_epoch=0)
    loaded = Module.load(str(tmp_path / "m"), 1)
    with pytest.warns(UserWarning, match=ignored):
        loaded.fit(io.NDArrayIter(x, y, 30), num_epoch=0, arg_params=module.get_params()[0])
