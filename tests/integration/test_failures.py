# SPDX-License-Identifier: Apache-2.0
"""What fails in a thread arrives where somebody waits, with its type and where it came from."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import mx
from mx_core import errors, operators
from mx_core.operator import Operator

pytestmark = pytest.mark.timeout(60)


class Fails(Operator):
    """Raises when it is computed."""

    name = "integration_fails"

    def gradient(self, p: Any, g: Any) -> Any:
        return (g.out_grad(),)

    def reference(self, p: Any, inputs: Any, ctx: Any) -> Any:
        raise ZeroDivisionError("raised while computing")


@pytest.fixture(autouse=True)
def fails() -> Iterator[None]:
    """Declares the operator; leaves no failure behind for other tests."""
    with operators.temporary(Fails):
        yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mx.nd.waitall()


def description(error: BaseException) -> str:
    return "".join(traceback.format_exception(error))


def test_an_imperative_operator() -> None:
    bad = mx.nd.integration_fails(mx.nd.ones((2,)))  # the line that is to be named
    after = mx.nd.relu(bad + 1)
    with pytest.raises(ZeroDivisionError, match="raised while computing") as caught:
        after.asnumpy()
    text = description(caught.value)
    assert "in operator integration_fails" in text and Path(__file__).name in text
    assert "in reference" in text, "the traceback leads to the line that raised"
    assert mx.nd.relu(mx.nd.array([-1, 2])).asnumpy().tolist() == [0, 2]


def test_wait_for_all() -> None:
    kept = mx.nd.integration_fails(mx.nd.ones((2,)))
    with pytest.raises(ZeroDivisionError, match="raised while computing"):
        mx.nd.waitall()
    mx.nd.waitall()
    assert kept.shape == (2,)


def test_a_graph() -> None:
    x = mx.sym.Variable("x")
    net = mx.sym.relu(mx.sym.integration_fails(mx.sym.exp(x), name="guilty"))
    executor = net.simple_bind(mx.cpu(), x=(2,))
    (output,) = executor.forward(is_train=True, x=mx.nd.ones((2,)))
    with pytest.raises(ZeroDivisionError) as caught:
        output.asnumpy()
    assert "integration_fails" in description(caught.value)


@pytest.mark.skipif(mx.num_gpus() > 0, reason="there is a GPU")
def test_memory_of_a_device_that_is_not_there() -> None:
    calls: list[Any] = [
        lambda: mx.nd.array([1], ctx=mx.gpu()),
        lambda: mx.nd.empty((2,), ctx=mx.gpu()),
        lambda: mx.nd.zeros((2,), ctx=mx.gpu()),
        lambda: mx.nd.ones((2,)).as_in_context(mx.gpu()),
        lambda: mx.nd.random.uniform(shape=(2,), ctx=mx.gpu()),
    ]
    for call in calls:
        with pytest.raises(errors.PluginError, match="gpu") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_a_gradient_in_a_store() -> None:
    store = mx.kv.create("local")
    store.init("w", mx.nd.ones((2,)))
    store.push("w", mx.nd.integration_fails(mx.nd.ones((2,))))
    pulled = mx.nd.zeros((2,))
    store.pull("w", out=pulled)
    with pytest.raises(ZeroDivisionError) as caught:
        pulled.asnumpy()
    assert "integration_fails" in description(caught.value)


def test_a_prefetching_thread() -> None:
    class Broken(mx.io.DataIter):
        provide_data = [mx.io.DataDesc("data", (1, 2))]
        provide_label = [mx.io.DataDesc("label", (1,))]

        def __init__(self) -> None:
            super().__init__(1)
            self.left = 2

        def next(self) -> Any:
            if not self.left:
                raise OSError("the disk is gone")
            self.left -= 1
            return mx.io.DataBatch([mx.nd.ones((1, 2))], [mx.nd.zeros((1,))], pad=0)

        def reset(self) -> None:
            self.left = 2

    batches = mx.io.PrefetchingIter(Broken())
    seen = 0
    with pytest.raises(OSError, match="the disk is gone") as caught:
        for _ in batches:
            seen += 1
    assert seen == 2
    assert "in next" in description(caught.value)


def test_a_decoding_thread(tmp_path: Path) -> None:
    path = tmp_path / "images.rec"
    with mx.recordio.MXRecordIO(str(path), "w") as record:
        for i in range(4):
            image = b"\xff\xd8\xff no image at all"
            record.write(mx.recordio.pack(mx.recordio.IRHeader(0, float(i), i, 0), image))
    with pytest.raises(mx.MXNetError, match=r"images\.rec"):
        for batch in mx.io.ImageRecordIter(path_imgrec=str(path), data_shape=(3, 8, 8), batch_size=2):
            batch.data[0].asnumpy()
