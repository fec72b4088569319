# SPDX-License-Identifier: Apache-2.0
"""mx: deep learning from parts that install separately and find each other.

`import mx` gives MXNet's names, each loaded when it is first used: `mx.nd`, `mx.sym`, `mx.io`,
`mx.kv`, `mx.mod`, `mx.autograd`, `mx.cpu()`. A part that is not installed is missed only when it
is asked for; the error says which distribution brings it.
"""

from __future__ import annotations

import sys as _sys

from mx_core.imports import Early as _Early

_early = _Early(__name__)
_sys.meta_path.insert(0, _early)

# ruff: noqa: E402  imports of other threads wait from here on
from typing import TYPE_CHECKING, Any

from mx.absent import absence as _absence_of
from mx.absent import explain as _explain
from mx.absent import known_as as _known_as
from mx.submodules import Submodules as _Submodules
from mx_core import lifecycle as _lifecycle  # noqa: F401  handlers of exit, before those of the program
from mx_core.imports import import_by_name as _import_by_name

if TYPE_CHECKING:  # what `_PLACES` says, for those who only read
    import mx_gluon as _mx_gluon
    import mx_kvstore as _mx_kvstore
    from mx import base as base
    from mx import contrib as contrib
    from mx import libinfo as libinfo
    from mx import log as log
    from mx import operator as operator
    from mx import registry as registry
    from mx import rtc as rtc
    from mx import runtime as runtime
    from mx import test_utils as test_utils
    from mx import util as util
    from mx.util import is_np_array as is_np_array
    from mx_core import context as context
    from mx_core import plugins as plugins
    from mx_core.context import Context as Context
    from mx_core.context import cpu as cpu
    from mx_core.context import cpu_pinned as cpu_pinned
    from mx_core.context import cpu_shared as cpu_shared
    from mx_core.context import current_context as current_context
    from mx_core.context import gpu as gpu
    from mx_core.context import num_gpus as num_gpus
    from mx_core.errors import MXNetError as MXNetError
    from mx_engine import bulking as _bulking
    from mx_engine import profiler as profiler
    from mx_io import image as image
    from mx_io import io as io
    from mx_io import recordio as recordio
    from mx_ndarray import NDArray as NDArray
    from mx_ndarray import autograd as autograd
    from mx_ndarray import nd as nd
    from mx_ndarray import random as random
    from mx_ndarray import waitall as waitall
    from mx_ndarray.captured import captured_step as captured_step
    from mx_symbol import sym as sym
    from mx_symbol import visualization as visualization
    from mx_symbol.graph.shape_mode import is_np_shape as is_np_shape
    from mx_symbol.graph.shape_mode import np_shape as np_shape
    from mx_symbol.graph.shape_mode import set_np_shape as set_np_shape
    from mx_symbol.graph.shape_mode import use_np_shape as use_np_shape
    from mx_symbol.runtime import executor as executor
    from mx_symbol.symbol import Symbol as Symbol
    from mx_symbol.symbol import attribute as attribute
    from mx_symbol.symbol import naming as _naming
    from mx_symbol.symbol.attribute import AttrScope as AttrScope
    from mx_train import callback as callback
    from mx_train import checkpoint as checkpoint
    from mx_train import executor_manager as executor_manager
    from mx_train import initializer as initializer
    from mx_train import lr_scheduler as lr_scheduler
    from mx_train import metric as metric
    from mx_train import model as model
    from mx_train import module as module
    from mx_train import monitor as monitor
    from mx_train import notebook as notebook
    from mx_train import optimizer as optimizer
    from mx_train import rnn as rnn

    ndarray = nd
    rnd = random
    engine = _bulking
    symbol = sym
    name = _naming
    img = image
    gluon = _mx_gluon
    kv = _mx_kvstore
    kvstore = _mx_kvstore
    mod = module
    mon = monitor
    opt = optimizer
    viz = visualization
    init = initializer

__version__ = "0.1.0"

#: name -> module, or module:attribute
_PLACES: dict[str, str] = {
    "base": "mx.base",
    "context": "mx_core.context",
    "Context": "mx_core.context:Context",
    "cpu": "mx_core.context:cpu",
    "gpu": "mx_core.context:gpu",
    "cpu_pinned": "mx_core.context:cpu_pinned",
    "cpu_shared": "mx_core.context:cpu_shared",
    "current_context": "mx_core.context:current_context",
    "num_gpus": "mx_core.context:num_gpus",
    "MXNetError": "mx_core.errors:MXNetError",
    "plugins": "mx_core.plugins",
    "nd": "mx_ndarray.nd",
    "ndarray": "mx_ndarray.nd",
    "NDArray": "mx_ndarray:NDArray",
    "autograd": "mx_ndarray.autograd",
    "captured_step": "mx_ndarray.captured:captured_step",
    "random": "mx_ndarray.random",
    "rnd": "mx_ndarray.random",
    "waitall": "mx_ndarray:waitall",
    "operator": "mx.operator",
    "profiler": "mx_engine.profiler",
    "contrib": "mx.contrib",
    "test_utils": "mx.test_utils",
    "util": "mx.util",
    "libinfo": "mx.libinfo",
    "log": "mx.log",
    "registry": "mx.registry",
    "rtc": "mx.rtc",
    "runtime": "mx.runtime",
    "is_np_array": "mx.util:is_np_array",
    "is_np_shape": "mx_symbol.graph.shape_mode:is_np_shape",
    "np_shape": "mx_symbol.graph.shape_mode:np_shape",
    "set_np_shape": "mx_symbol.graph.shape_mode:set_np_shape",
    "use_np_shape": "mx_symbol.graph.shape_mode:use_np_shape",
    "engine": "mx_engine.bulking",
    "sym": "mx_symbol.sym",
    "symbol": "mx_symbol.sym",
    "Symbol": "mx_symbol.symbol:Symbol",
    "executor": "mx_symbol.runtime.executor",
    "executor_manager": "mx_train.executor_manager",
    "AttrScope": "mx_symbol.symbol.attribute:AttrScope",
    "attribute": "mx_symbol.symbol.attribute",
    "name": "mx_symbol.symbol.naming",
    "io": "mx_io.io",
    "recordio": "mx_io.recordio",
    "image": "mx_io.image",
    "img": "mx_io.image",
    "kv": "mx_kvstore",
    "kvstore": "mx_kvstore",
    "mod": "mx_train.module",
    "module": "mx_train.module",
    "model": "mx_train.model",
    "optimizer": "mx_train.optimizer",
    "opt": "mx_train.optimizer",
    "lr_scheduler": "mx_train.lr_scheduler",
    "metric": "mx_train.metric",
    "init": "mx_train.initializer",
    "initializer": "mx_train.initializer",
    "callback": "mx_train.callback",
    "checkpoint": "mx_train.checkpoint",
    "rnn": "mx_train.rnn",
    "gluon": "mx_gluon",
    "viz": "mx_symbol.visualization",
    "visualization": "mx_symbol.visualization",
    "mon": "mx_train.monitor",
    "monitor": "mx_train.monitor",
    "notebook": "mx_train.notebook",
}


def _absence(name: str) -> str | None:
    """The error message for a part of MXNet that does not exist here, else None."""
    return _absence_of((__name__,), name) or None


def _missing(name: str, error: ModuleNotFoundError) -> str | None:
    """The error message for a name whose distribution is not installed; None if the import failed otherwise."""
    package = _PLACES[name].partition(".")[0].partition(":")[0] if name in _PLACES else None
    if package is None or error.name != package:
        return None
    distribution = package.replace("_", "-")
    return f"mx.{name} comes with {distribution}, which is not installed: install {distribution}"


def _all() -> list[str]:
    """What `from mx import *` takes: every name whose distribution is installed."""
    found = []
    for name in _PLACES:
        try:
            __getattr__(name)
        except AttributeError:
            continue
        found.append(name)
    return found


def __getattr__(name: str) -> Any:
    if name == "__all__":
        return _all()
    place = _PLACES.get(name)
    absence = _absence(name)
    if absence is not None:
        raise AttributeError(absence)
    if place is None:
        import difflib

        close = difflib.get_close_matches(name, _PLACES, 1)
        hint = f"; did you mean mx.{close[0]}?" if close else ""
        raise AttributeError(f"module 'mx' has no attribute {name!r}{hint}")
    module, _, attribute = place.partition(":")
    try:
        found: Any = _import_by_name(module)
    except ModuleNotFoundError as error:
        message = _missing(name, error)
        if message is None:
            raise
        raise AttributeError(message) from error
    value = getattr(found, attribute) if attribute else found
    if not attribute:
        _explain(found, _known_as(_PLACES, place))
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})


_early.serve(_Submodules(__name__, _PLACES, _missing, _absence))
