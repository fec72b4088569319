# SPDX-License-Identifier: Apache-2.0
"""Checks of codecs, iterators, stores, augmenters, optimizers, metrics and initializers."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import Any

from mx_core import plugins
from mx_core.errors import MXNetError, PluginError
from mx_core.plugins import specs
from mx_core.plugins.registries import Entry
from mx_core.raised import told
from mx_core.testing.checks.result import (
    FAILURES,
    Result,
    attempt,
    check_target,
    made_plainly,
    name_of,
    optional,
    run_contract,
    run_made,
)
from mx_core.testing.checks.services import is_present

#: what is checked of what training uses, and the module and function that do
_TRAINED = {
    "augmenters": ("it makes an image of an image", "augmenter", "check_augmenter"),
    "initializers": ("it writes every element", "training", "check_initializer"),
    "optimizers": ("it updates a weight", "training", "check_optimizer"),
    "metrics": (
        "it takes labels and predictions, and gives finite numbers", "training", "check_metric",
    ),
}  # fmt: skip


def check_codec(entry: Entry) -> Iterator[Result]:
    """The contract of codecs, or of one that only reads what can be tried without a sample."""
    from mx_core.testing.codec import CodecContract

    class Contract(CodecContract):
        tolerance = 16  # whether it is lossless is not registered

        def make_codec(self) -> specs.CodecSpec:
            codec: specs.CodecSpec = entry.value
            return codec

    subject = name_of(entry)
    if entry.value.encode is not None:
        yield from run_contract(Contract(), subject)
        return
    for head in (b"", bytes(64)):
        yield attempt(subject, f"sniff answers to {len(head)} bytes", partial(entry.value.sniff, head))
    yield attempt(subject, "decode can be imported", partial(specs.resolve, entry.value.decode))
    yield attempt(subject, "decode returns to its caller", partial(_decode_nothing, entry.value))
    cure = "it writes none of its images; derive from CodecContract in your tests and give it a sample"
    yield Result(subject, "decoding", None, cure)


def _decode_nothing(codec: specs.CodecSpec) -> None:
    """Decodes bytes that are no image. An error is right; the codec must not end the program."""
    try:
        codec.decode(bytes(64), 1)
    except PluginError:
        raise
    except Exception:
        return


def check_iterator(entry: Entry) -> Iterator[Result]:
    """The contract of iterators."""
    from mx_core.testing.data_iter import DataIterContract

    imported = list(check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    _, result = made_plainly(entry, "contract of iterators", "derive from DataIterContract in your tests")
    if result is not None:
        yield result
        return

    class Contract(DataIterContract):
        def make_iter(self) -> Any:
            return entry.value.make()

    yield from run_contract(Contract(), name_of(entry))


def check_store(entry: Entry) -> Iterator[Result]:
    """The contract of stores."""
    from mx_core.testing.kvstore import KVStoreContract

    imported = list(check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    arrays = optional("mx_ndarray")
    if arrays is None:
        yield Result(name_of(entry), "contract of stores", None, "mx-ndarray is not installed")
        return

    devices = plugins.registry("devices")
    for device in devices.names():
        if devices.get(device).distribution == entry.distribution and not is_present(device):
            yield Result(name_of(entry), "contract of stores", None, f"there is no {device} here")
            return
    wanted = entry.name.partition("@")[0]  # without the engine
    if "dist" in wanted:
        try:
            entry.value.make(wanted)
        except MXNetError as error:  # as it must where no launcher has started this process
            reason = f"{error}; start a program that derives from KVStoreContract by its launcher"
            yield Result(name_of(entry), "contract of stores", None, reason)
            return
        except FAILURES:
            pass  # which is told below

    class Contract(KVStoreContract):
        def make_store(self) -> Any:
            return entry.value.make(wanted)

        def array(self, values: Any) -> Any:
            return arrays.nd.array(values, dtype=values.dtype)

    yield from run_made(Contract(), partial(entry.value.make, wanted), name_of(entry))


def check_trained(entry: Entry) -> Iterator[Result]:
    """An augmenter, an optimizer, a metric or an initializer."""
    from mx_core.testing import training

    imported = list(check_target(entry))
    yield from imported
    if any(result.error for result in imported):
        return
    what, module, name = _TRAINED[entry.kind]
    function = getattr(import_module(f"mx_core.testing.{module}"), name)
    arrays = optional("mx_ndarray")
    if arrays is None:
        yield Result(name_of(entry), what, None, "mx-ndarray is not installed")
        return
    made, result = made_plainly(entry, what, f"call mx_core.testing.{module} in your tests")
    if result is not None:
        yield result
        return
    try:
        function(made, arrays.nd.array)
    except training.Unsuited as error:
        yield Result(name_of(entry), what, None, f"it refuses made-up arrays: {error}")
    except FAILURES as error:
        yield Result(name_of(entry), what, told(error))
    else:
        yield Result(name_of(entry), what)
        if entry.kind == "optimizers":
            yield _check_saving(entry, made, arrays)


def _check_saving(entry: Entry, optimizer: Any, arrays: Any) -> Result:
    """The states of an optimizer can be written and read."""
    what, trained = "its states can be saved and read", optional("mx_train.optimizer")
    if trained is None:
        return Result(name_of(entry), what, None, "mx-train is not installed")

    def check() -> None:
        updater = trained.Updater(optimizer)
        updater(0, arrays.nd.ones((4, 3)), arrays.nd.ones((4, 3)))
        trained.Updater(optimizer).set_states(updater.get_states())

    return attempt(name_of(entry), what, check)
