# SPDX-License-Identifier: Apache-2.0
"""Trainer: stores, stale gradients, rates, values that a program sets, and what it refuses."""

from __future__ import annotations

import copy
import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx_kvstore
from mx_core import cpu
from mx_core.errors import ArgumentError, FileFormatError, MissingFileError, SettingError
from mx_gluon import Parameter, ParameterDict, Trainer, nn
from mx_gluon.errors import DeferredInitializationError, StaleGradientError
from mx_kvstore import KVStoreBase
from mx_ndarray import autograd, nd
from mx_train import optimizer


def weights(*names: str, contexts: Any = None) -> ParameterDict:
    params = ParameterDict()
    for name in names or ("w",):
        params.get(name, shape=(2,), init="zeros")
    params.initialize(ctx=contexts)
    return params


def differentiate(*params: Parameter, factor: float = 1.0) -> None:
    """Gives each copy of the parameters the gradient `factor`."""
    for param in params:
        for array in param.list_data():
            with autograd.record():
                loss = (array * factor).sum()
            loss.backward()


class TestArguments:
    def test_parameters(self) -> None:
        with pytest.raises(ValueError, match="params: expected a list or dict of Parameters, got 3"):
            Trainer(3, "sgd")  # type: ignore[arg-type]
        with pytest.raises(ValueError, match="params: expected Parameters, got 'w' among them"):
            Trainer(["w"], "sgd")  # type: ignore[list-item]
        with pytest.raises(
            ValueError, match=r"at least one Parameter, got none; collect_params\(\) of a block"
        ):
            Trainer(nn.HybridSequential().params, "sgd")
        with pytest.raises(ValueError, match=r"got Dense.*; give its collect_params\(\)$"):
            Trainer(nn.Dense(3), "sgd")  # type: ignore[arg-type]

    def test_stores(self) -> None:
        for wrong in ("devise", "device2"):
            with pytest.raises(
                ArgumentError, match=rf"unknown kvstore {wrong!r}; .* Did you mean 'device'\?"
            ):
                Trainer(weights(), "sgd", kvstore=wrong)
        with pytest.raises(ArgumentError, match="kvstore: expected the name of a store, .* got 5"):
            Trainer(weights(), "sgd", kvstore=5)  # type: ignore[arg-type]
        assert Trainer(weights(), "sgd", kvstore="LOCAL")._kvstore is None

    def test_order_of_names(self) -> None:
        params = weights("b", "a")
        assert [param.name for param in Trainer(params, "sgd")._params] == ["a", "b"]
        assert [param.name for param in Trainer(dict(params.items()), "sgd")._params] == ["a", "b"]
        assert [param.name for param in Trainer(list(params.values()), "sgd")._params] == ["b", "a"]

    def test_contexts(self) -> None:
        params = [*weights("a").values(), *weights("b", contexts=cpu(1)).values()]
        with pytest.raises(
            AssertionError, match=re.escape("the same contexts: b is on [cpu(1)], a on [cpu(0)]")
        ):
            Trainer(params, "sgd")

    def test_optimizers(self) -> None:
        made = optimizer.SGD(learning_rate=0.5)
        trainer = Trainer(weights(), made)
        assert trainer.optimizer is made
        with pytest.raises(AssertionError, match=re.escape("SGD that is made already, got {'wd': 0.1}")):
            Trainer(weights(), made, {"wd": 0.1})
        with pytest.raises(ArgumentError, match="unknown optimizer 'sdg'"):
            Trainer(weights(), "sdg")

    def test_rates(self) -> None:
        trainer = Trainer(weights(), "sgd", {"learning_rate": 0.5})
        trainer.set_learning_rate(0.25)
        assert trainer.learning_rate == 0.25


class TestSteps:
    def test_divides_by_the_batch(self) -> None:
        params = weights()
        trainer = Trainer(params, "sgd", {"learning_rate": 1, "rescale_grad": 3})
        differentiate(params["w"])
        trainer.step(6)
        assert params["w"].data().asnumpy().tolist() == [-0.5, -0.5]
        differentiate(params["w"])
        trainer.step(3)
        assert params["w"].data().asnumpy().tolist() == [-1.5, -1.5]

    @pytest.mark.parametrize("in_store", [None, False, True])
    @pytest.mark.parametrize("store", ["local", "device"])
    def test_sums_over_contexts(self, store: str, in_store: bool | None) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 1}, kvstore=store, update_on_kvstore=in_store)
        differentiate(params["w"])
        trainer.step(1)
        assert [array.asnumpy().tolist() for array in params["w"].list_data()] == [[-2, -2], [-2, -2]]

    def test_no_examples(self) -> None:
        params = weights()
        differentiate(params["w"])
        for size in (float("nan"), "2", None):
            with pytest.raises(
                ArgumentError, match=rf"batch_size: expected the number of examples, got {size!r}"
            ):
                Trainer(params, "sgd").step(size)
        with pytest.raises(ArgumentError, match=r"batch_size: expected the number of examples, got 0"):
            Trainer(params, "sgd").step(0)

    def test_two_halves_of_a_step(self) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 1}, update_on_kvstore=False)
        differentiate(params["w"])
        trainer.allreduce_grads()
        assert [grad.asnumpy().tolist() for grad in params["w"].list_grad()] == [[2, 2], [2, 2]]
        for grad in params["w"].list_grad():
            grad[:] = grad / 4
        trainer.update(1)
        assert params["w"].data(cpu(1)).asnumpy().tolist() == [-0.5, -0.5]

    def test_halves_of_a_step_in_the_store(self) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd")
        differentiate(params["w"])
        for half in (trainer.allreduce_grads, lambda: trainer.update(1)):
            with pytest.raises(
                AssertionError, match="the store runs the optimizer; make the Trainer with update_on_kvs"
            ):
                half()

    def test_parameters_without_gradients(self) -> None:
        params = weights("a", "b")
        params["b"].grad_req = "null"
        differentiate(params["a"])
        Trainer(params, "sgd", {"learning_rate": 1}).step(1)
        assert [param.data().sum().asscalar() for param in params.values()] == [-2, 0]

    def test_accumulated_gradients(self) -> None:
        params = weights()
        params.setattr("grad_req", "add")
        trainer = Trainer(params, "sgd", {"learning_rate": 1})
        for _ in range(3):
            differentiate(params["w"])
        trainer.step(1)
        params.zero_grad()
        assert params["w"].data().asnumpy().tolist() == [-3, -3]

    def test_waits_for_shapes(self) -> None:
        net = nn.Dense(1)
        net.initialize()
        trainer = Trainer(net.collect_params(), "sgd")
        with pytest.raises(DeferredInitializationError, match="dense.*_bias|dense.*_weight"):
            trainer.step(1)
        with autograd.record():
            loss = net(nd.ones((1, 3)))
        loss.backward()
        trainer.step(1)


class TestStaleGradients:
    @pytest.mark.parametrize("contexts", [[cpu(0)], [cpu(0), cpu(1)]])
    def test_nothing_is_updated(self, contexts: Any) -> None:
        params = weights("a", "b", contexts=contexts)
        trainer = Trainer(params, "sgd", {"learning_rate": 1})
        differentiate(params["a"])
        with pytest.raises(
            UserWarning, match=r"\[Trainer\] gradient of b on cpu\(0\): no backward has written it"
        ):
            trainer.step(1)
        assert params["a"].data(cpu(0)).sum().asscalar() == 0

    def test_left_out(self) -> None:
        params = weights("a", "b")
        trainer = Trainer(params, "sgd", {"learning_rate": 1})
        differentiate(params["a"])
        trainer.step(1, ignore_stale_grad=True)
        assert [param.data().sum().asscalar() for param in params.values()] == [-2, 0]
        with pytest.raises(StaleGradientError, match="gradient of a"):
            trainer.update(1)


class TestStores:
    def test_one_context_needs_none(self) -> None:
        trainer = Trainer(weights(), "sgd")
        trainer._ready()
        assert trainer._kvstore is None

    def test_variable(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for text, expected in (("0", False), ("1", True)):
            monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", text)
            trainer = Trainer(weights(contexts=[cpu(0), cpu(1)]), "sgd")
            trainer._ready()
            assert trainer._update_on_kvstore is expected
        monkeypatch.setenv("MXNET_UPDATE_ON_KVSTORE", "no")
        with pytest.raises(SettingError, match=r"\[MXNET_UPDATE_ON_KVSTORE\] expected 0 or 1, got 'no'"):
            Trainer(weights(contexts=[cpu(0), cpu(1)]), "sgd").save_states("x")

    def test_a_store_that_runs_no_optimizer(self) -> None:
        class Summing(mx_kvstore.KVStore):
            @staticmethod
            def is_capable(capability: str) -> bool:
                return False

        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 1}, kvstore=Summing())
        differentiate(params["w"])
        trainer.step(1)
        assert params["w"].data(cpu(1)).asnumpy().tolist() == [-2, -2]
        with pytest.raises(
            ValueError, match="update_on_kvstore: Summing 'local' runs no optimizers, got True"
        ):
            Trainer(params, "sgd", kvstore=Summing(), update_on_kvstore=True).step(1)

    def test_a_store_of_the_smallest_contract(self) -> None:
        class Least(KVStoreBase):
            def broadcast(self, key: Any, value: Any, out: Any, priority: int = 0) -> None:
                for array in out:
                    value.copyto(array)

            def pushpull(self, key: Any, value: Any, out: Any = None, priority: int = 0) -> None:
                total = nd.add_n(*(array.as_in_context(cpu(0)) for array in value))
                for array in out or value:
                    total.copyto(array)

            type = "least"
            rank = 0
            num_workers = 1

        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 1}, kvstore=Least())
        differentiate(params["w"])
        trainer.step(1)
        assert params["w"].data(cpu(1)).asnumpy().tolist() == [-2, -2]

    @pytest.mark.parametrize("count", [1, 2])
    def test_classes_that_sum_in_another_way(self, count: int) -> None:
        class Distributed(Trainer):
            def _allreduce_grads(self) -> None:  # its name and its arguments are MXNet's
                super()._allreduce_grads()
                for param in self._params:
                    for grad in param.list_grad():
                        grad *= 10

        params = weights(contexts=[cpu(i) for i in range(count)])
        alone = Distributed(params, "sgd", {"learning_rate": 1}, kvstore=None)
        stored = Distributed(params, "sgd", {"learning_rate": 1}, update_on_kvstore=False)
        for trainer, expected in ((alone, -10), (stored, -10 - 10 * count)):
            differentiate(params["w"])
            trainer.step(1)
            for array in params["w"].list_data():
                assert array.asnumpy().tolist() == [expected, expected]
        differentiate(params["w"])
        stored.allreduce_grads()
        assert params["w"].list_grad()[0].asnumpy().tolist() == [10 * count, 10 * count]

    def test_values_that_a_program_sets(self) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 1})
        differentiate(params["w"])
        trainer.step(1)
        params["w"].set_data(nd.full((2,), 10))
        differentiate(params["w"])
        trainer.step(1)
        assert params["w"].data(cpu(1)).asnumpy().tolist() == [8, 8]

    def test_contexts_start_alike(self) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        params["w"].data(cpu(0))[:] = 5
        trainer = Trainer(params, "sgd", {"learning_rate": 1}, update_on_kvstore=False)
        differentiate(params["w"])
        trainer.step(1)
        assert [array.asnumpy().tolist() for array in params["w"].list_data()] == [[3, 3], [3, 3]]


class TestStates:
    @pytest.mark.parametrize("contexts", [[cpu(0)], [cpu(0), cpu(1)]])
    def test_of_another_optimizer(self, contexts: Any, tmp_path: Path) -> None:
        params = weights(contexts=contexts)
        trainer = Trainer(params, "adam")
        differentiate(params["w"])
        trainer.step(1)
        path = tmp_path / "adam.states"
        trainer.save_states(path)
        with pytest.raises(ArgumentError, match="adam.states: .*Adam"):
            Trainer(params, "rmsprop").load_states(path)
        path.write_bytes(path.read_bytes()[:-9])
        with pytest.raises(FileFormatError, match="adam.states"):
            trainer.load_states(path)
        with pytest.raises(MissingFileError, match="none.states"):
            trainer.load_states(tmp_path / "none.states")

    def test_before_shapes_are_known(self, tmp_path: Path) -> None:
        net = nn.Dense(1, prefix="d_")
        net.initialize(ctx=[cpu(0), cpu(1)])
        trainer = Trainer(net.collect_params(), "sgd")
        with pytest.raises(AssertionError, match="save_states: d_weight have no values yet"):
            trainer.save_states(tmp_path / "x.states")

    def test_counts_of_each_context_go_on(self, tmp_path: Path) -> None:
        def run(steps: int, trainer: Trainer, params: ParameterDict) -> None:
            for i in range(steps):
                differentiate(params["w"], factor=i + 1)
                trainer.step(1)

        both = [cpu(0), cpu(1)]
        whole, first, second = (weights(contexts=both) for _ in range(3))
        settings: dict[str, Any] = {"optimizer": "adam", "update_on_kvstore": False}
        run(3, Trainer(whole, **settings), whole)
        trainer = Trainer(first, **settings)
        run(3, trainer, first)
        trainer.save_states(tmp_path / "s")
        second["w"].set_data(first["w"].data(cpu(0)))
        resumed = Trainer(second, **settings)
        resumed.load_states(tmp_path / "s")
        assert [memory["_index_update_count"] for memory in resumed._replicas._memories] == [{0: 3}, {0: 3}]
        for params, each in ((first, trainer), (second, resumed)):
            run(2, each, params)
        for ctx in both:
            np.testing.assert_array_equal(first["w"].data(ctx).asnumpy(), second["w"].data(ctx).asnumpy())
        np.testing.assert_array_equal(first["w"].data(cpu(0)).asnumpy(), first["w"].data(cpu(1)).asnumpy())


class TestParametersThatChangePlaces:
    """A program moves parameters, or initialises them again, between two steps."""

    @staticmethod
    def step(params: ParameterDict, trainer: Trainer) -> list[float]:
        arrays = params["w"].list_data()
        with autograd.record():
            losses = [(array * array).sum() / len(arrays) for array in arrays]
        autograd.backward(losses)
        trainer.step(1)
        values = [array.asnumpy().tolist() for array in params["w"].list_data()]
        assert all(each == values[0] for each in values)
        return values[0]

    @pytest.mark.parametrize("in_store", [True, False])
    @pytest.mark.parametrize("moves", [([0, 1], [0]), ([0], [0, 1]), ([0], [1]), ([0, 1], [2, 1, 0])])
    def test_states_go_with_them(self, moves: Any, in_store: bool) -> None:
        made = []
        for targets in (moves, (moves[0], moves[0])):
            params = weights(contexts=[cpu(i) for i in targets[0]])
            params["w"].set_data(nd.ones((2,)))
            trainer = Trainer(
                params, "sgd", {"learning_rate": 0.1, "momentum": 0.9}, update_on_kvstore=in_store
            )
            values = [self.step(params, trainer)]
            params.reset_ctx([cpu(i) for i in targets[1]])
            made.append(values + [self.step(params, trainer) for _ in range(2)])
        np.testing.assert_allclose(made[0], made[1], rtol=1e-6)

    @pytest.mark.parametrize("in_store", [True, False])
    def test_values_of_another_initialisation_stay(self, in_store: bool) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 0.25}, update_on_kvstore=in_store)
        self.step(params, trainer)
        params["w"].initialize("ones", ctx=[cpu(0), cpu(1)], force_reinit=True)
        assert self.step(params, trainer) == [0.5, 0.5]

    def test_one_that_is_elsewhere_is_named(self) -> None:
        params = weights("v", "w")
        trainer = Trainer(params, "sgd")
        params["w"].reset_ctx(cpu(1))
        with pytest.raises(AssertionError, match=r"must be on the same contexts: w is on \[cpu\(1\)\], v on"):
            trainer.step(1)


class TestParametersThatAreCast:
    @pytest.mark.parametrize("settings", [("sgd", {"momentum": 0.9}), ("adam", {}), ("sgd", {})])
    @pytest.mark.parametrize("contexts", [[cpu(0)], [cpu(0), cpu(1)]])
    @pytest.mark.parametrize("precise", [False, True])
    def test_after_steps(self, settings: Any, contexts: Any, precise: bool) -> None:
        """States of another type are refused, by the parameter's name; where there are none, training goes on."""
        kind, more = settings
        for before, after in (("float32", "float16"), ("bfloat16", "float32")):
            params = weights(contexts=contexts)
            params["w"].cast(before)
            trainer = Trainer(params, kind, {"multi_precision": precise, **more}, update_on_kvstore=False)
            differentiate(params["w"])
            trainer.step(1)
            params["w"].cast(after)
            differentiate(params["w"])
            keeps = kind == "adam" or bool(more) or (precise and before == "bfloat16")
            if keeps:
                for _ in range(2):
                    with pytest.raises(
                        ArgumentError, match=f"w was cast from {before} to {after}.*a new Trainer"
                    ):
                        trainer.step(1)
                params["w"].cast(before)
                differentiate(params["w"])
            trainer.step(1)
            assert params["w"].data(cpu(0)).asnumpy().max() < -0.001

    def test_in_a_store(self) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd")
        params["w"].cast("float16")  # before the first step
        differentiate(params["w"])
        trainer.step(1)
        params["w"].cast("float32")
        differentiate(params["w"])
        with pytest.raises(ArgumentError, match="w was cast from float16 to float32"):
            trainer.step(1)


def test_a_parameter_that_is_given_twice_is_updated_once() -> None:
    for kind in ("sgd", "adam"):
        params = weights("a", "b")
        trainer = Trainer([*params.values(), *params.values()], kind, {"learning_rate": 0.5})
        differentiate(*params.values())
        with pytest.raises(StaleGradientError, match="gradient of a on .*was given to the Trainer twice"):
            trainer.step(1)
        trainer.step(1, ignore_stale_grad=True)
        for param in params.values():
            np.testing.assert_allclose(param.data().asnumpy(), [-0.5, -0.5], rtol=1e-6)


@pytest.mark.parametrize("in_store", [True, False])
class TestGradientsOfFormerSteps:
    """On two contexts, with a store that sums them."""

    @staticmethod
    def made(in_store: bool) -> tuple[ParameterDict, Trainer]:
        params = weights("a", "b", contexts=[cpu(0), cpu(1)])
        trainer = Trainer(params, "sgd", {"learning_rate": 0.5}, update_on_kvstore=in_store)
        differentiate(*params.values())
        trainer.step(1)
        return params, trainer

    def values(self, param: Parameter) -> list[list[float]]:
        return [array.asnumpy().tolist() for array in param.list_data()]

    def test_are_refused(self, in_store: bool) -> None:
        params, trainer = self.made(in_store)
        differentiate(params["a"])
        with pytest.raises(StaleGradientError, match=r"gradient of b on cpu\(0\): no backward"):
            trainer.step(1)
        assert self.values(params["a"]) == self.values(params["b"]) == [[-1, -1]] * 2

    def test_are_left_out(self, in_store: bool) -> None:
        params, trainer = self.made(in_store)
        differentiate(params["a"])
        for _ in range(2):  # the second step has nothing to do
            trainer.step(1, ignore_stale_grad=True)
        assert self.values(params["a"]) == [[-2, -2]] * 2
        assert self.values(params["b"]) == [[-1, -1]] * 2

    def test_of_one_context_count_as_0(self, in_store: bool) -> None:
        params, trainer = self.made(in_store)
        with autograd.record():
            loss = (params["a"].data(cpu(1)) * 3).sum()
        loss.backward()
        if not in_store:
            trainer.allreduce_grads()
            trainer.update(1, ignore_stale_grad=True)
        else:
            trainer.step(1, ignore_stale_grad=True)
        assert self.values(params["a"]) == [[-2.5, -2.5]] * 2
        assert self.values(params["b"]) == [[-1, -1]] * 2

    def test_of_a_parameter_that_is_given_twice_are_summed_once(self, in_store: bool) -> None:
        params = weights(contexts=[cpu(0), cpu(1)])
        trainer = Trainer([params["w"]] * 2, "sgd", {"learning_rate": 0.5}, update_on_kvstore=in_store)
        differentiate(params["w"])
        trainer.step(1, ignore_stale_grad=True)
        assert self.values(params["w"]) == [[-1, -1]] * 2


class TestCopies:
    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_of_a_network_have_no_trainer(self, duplicate: Any) -> None:
        net = nn.Dense(2, in_units=2)
        net.initialize(ctx=[cpu(0), cpu(1)])
        trainer = Trainer(net.collect_params(), "sgd", {"learning_rate": 0.5})
        differentiate(*net.collect_params().values())
        trainer.step(2)  # with a store, which cannot be copied
        other = duplicate(net)
        assert net.weight._told() == [trainer] and other.weight._told() == []
        before = net.weight.data(cpu(0)).asnumpy()
        own = Trainer(other.collect_params(), "sgd", {"learning_rate": 0.5})
        differentiate(*other.collect_params().values())
        own.step(2)
        np.testing.assert_allclose(other.weight.data(cpu(1)).asnumpy(), before - 0.5, rtol=1e-6)
        np.testing.assert_array_equal(net.weight.data(cpu(0)).asnumpy(), before)

    @pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
    def test_of_a_network_with_its_trainer(self, duplicate: Any) -> None:
        params = weights()
        trainer = Trainer(params, "sgd", {"momentum": 0.5, "learning_rate": 1.0})
        differentiate(*params.values())
        trainer.step(1)
        others, other = duplicate((params, trainer))
        assert others["w"]._told() == [other] and params["w"]._told() == [trainer]
        for these, each in ((params, trainer), (others, other)):
            differentiate(*these.values())
            each.step(1)
            assert these["w"].data().asnumpy().tolist() == [-2.5, -2.5]


@pytest.mark.parametrize(("first", "then"), [(1, 2), (2, 1)])
def test_every_trainer_of_a_parameter_follows_it_to_other_contexts(first: int, then: int) -> None:
    contexts = [cpu(i) for i in range(2)]
    net = nn.Dense(1, in_units=3, use_bias=False)
    net.initialize("ones", ctx=contexts[:first])
    trainers = [Trainer(net.collect_params(), "sgd", {"learning_rate": 1.0}) for _ in range(2)]

    def step() -> None:
        with autograd.record():
            losses = [net(nd.ones((1, 3), ctx=ctx)).sum() for ctx in net.weight.list_ctx()]
        autograd.backward(losses)
        trainers[0].step(1)

    step()
    net.collect_params().reset_ctx(contexts[:then])
    step()
    expected = 1.0 - first - then
    assert [copy.asnumpy().tolist() for copy in net.weight.list_data()] == [[[expected] * 3]] * then


def test_a_request_that_was_interrupted_can_be_made_again(monkeypatch: pytest.MonkeyPatch) -> None:
    net = nn.Dense(1, in_units=3)
    net.initialize()
    net.weight.grad_req = "null"
    with monkeypatch.context() as patch:
        patch.setattr(autograd, "mark_variables", interrupted)
        with pytest.raises(KeyboardInterrupt):
            net.weight.grad_req = "write"
    assert net.weight.grad_req == "null"
    net.weight.grad_req = "write"
    assert net.weight.grad().shape == (1, 3)


def interrupted(*_: object) -> None:
    raise KeyboardInterrupt


def test_states_of_another_network_are_refused_before_they_are_taken(tmp_path: Path) -> None:
    trainers = []
    for units in (3, 5):
        net = nn.Dense(units, in_units=4, prefix="d_")
        net.initialize()
        trainers.append(Trainer(net.collect_params(), "adam"))
        differentiate(*net.collect_params().values())
        trainers[-1].step(1)
    trainers[0].save_states(tmp_path / "a.states")
    with pytest.raises(
        ArgumentError,
        match=r"a.states: \[Adam\] state of 'd_bias': expected .*\(5,\).*, got .*\(3,\).*another network",
    ):
        trainers[1].load_states(tmp_path / "a.states")
    differentiate(*trainers[1]._params)
    trainers[1].step(1)
    assert trainers[1].optimizer.num_update == 2


def test_states_are_read_once_and_those_of_frozen_parameters_are_no_matter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trainers = []
    for units in (3, 5):
        net = nn.Dense(units, in_units=4, prefix="d_")
        net.initialize()
        if units == 5:
            net.collect_params().setattr("grad_req", "null")
        trainers.append(Trainer(net.collect_params(), "adam"))
    differentiate(*trainers[0]._params)
    trainers[0].step(1)
    trainers[0].save_states(tmp_path / "a.states")
    reads = []
    read = optimizer.Updater._read
    monkeypatch.setattr(optimizer.Updater, "_read", lambda *args: reads.append(1) or read(*args))
    for trainer in trainers:
        trainer.load_states(tmp_path / "a.states")
    assert len(reads) == 2
