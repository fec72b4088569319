# SPDX-License-Identifier: Apache-2.0
"""Parameter: the values of a weight on every context, with their gradients."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from mx_core import dtypes
from mx_core.context import Context, cpu, current_context
from mx_core.errors import ArgumentError, MXNetError
from mx_core.forks import ForkSafeLock
from mx_gluon.errors import DeferredInitializationError, RefusedError
from mx_gluon.parameter import collected
from mx_gluon.parameter.filling import Contexts, Deferred, Init, contexts_of, filled
from mx_gluon.parameter.shapes import Shape, fits, is_known, stored
from mx_gluon.warned import warn
from mx_ndarray import NDArray, autograd, nd
from mx_symbol.graph.shape_mode import is_np_shape
from mx_symbol.symbol import Symbol, var
from mx_train import initializer

if TYPE_CHECKING:
    from mx_gluon.trainer import Trainer

#: what blocks compute with
tensor_types: Final = (Symbol, NDArray)
_STORAGE_TYPES = ("default", "row_sparse", "csr")
#: attributes that say where the values and gradients are, and what backward and updates do with these
_COLLECTED = frozenset(("_data", "_grad", "_grad_req", "lr_mult", "wd_mult"))
_REQUESTS = ("write", "add", "null")
#: kinds of main memory, which count as one place
_HOST = frozenset((1, 3, 5))
#: held while values are made that have waited for a shape: threads may call a block for the first time at once
_finishing = ForkSafeLock()


class Parameter:
    """A weight: its values on one or several contexts, and their gradients.

    Threads: any may read values, and values that wait for a shape are made once; it is otherwise initialised, cast
    and moved by one at a time.

    Parameters
    ----------
    name : str
    grad_req : {"write", "add", "null"}
        Whether backward replaces the gradient, adds to it, or computes none.
    shape : int or sequence of int, optional
        0 is an unknown dimension (−1 in NumPy's mode), None an unknown shape.
    dtype : type or str
    lr_mult, wd_mult : float
        Factors of the learning rate and of the weight decay.
    init : Initializer or str, optional
        Its own initializer, which goes before that of `initialize` on a block.
    allow_deferred_init : bool
        With an unknown shape, wait for the first batch instead of raising.
    differentiable : bool
        False makes `grad_req` "null" for good.
    stype, grad_stype : str
        How values and gradients are stored: "default", since arrays are dense.

    Raises
    ------
    RefusedError   a storage type or request that does not exist
    ArgumentError  a storage type that is not dense
    """

    def __init__(
        self,
        name: str,
        grad_req: str = "write",
        shape: int | Sequence[int] | None = None,
        dtype: Any = np.float32,
        lr_mult: float = 1.0,
        wd_mult: float = 1.0,
        init: Init = None,
        allow_deferred_init: bool = False,
        differentiable: bool = True,
        stype: str = "default",
        grad_stype: str = "default",
    ) -> None:
        self._var: Symbol | None = None
        self._data: list[NDArray] | None = None
        self._grad: list[NDArray] | None = None
        self._ctx_list: list[Context] = []
        self._places: dict[tuple[int, int], int] = {}
        self._trainers: tuple[weakref.ref[Trainer], ...] = ()
        self._deferred_init: Deferred | None = None
        self._differentiable = differentiable
        self._allow_deferred_init = allow_deferred_init
        sizes = (shape,) if isinstance(shape, int) else shape
        self._shape: Shape | None = None if sizes is None else stored(sizes)
        self._dtype = dtype
        self._grad_req = "null"
        self.name = name
        self.lr_mult = lr_mult
        self.wd_mult = wd_mult
        self.init = init
        for what, given in (("grad_stype", grad_stype), ("stype", stype)):
            self._check_storage(what, given)
        self.grad_req = grad_req

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _COLLECTED:
            collected.end()  # an interrupt may come at any place
        super().__setattr__(name, value)
        if name in _COLLECTED:
            collected.end()

    def _check_storage(self, what: str, given: str) -> None:
        if given not in _STORAGE_TYPES:
            known = ", ".join(map(repr, _STORAGE_TYPES))
            raise RefusedError(f"[Parameter {self.name}] {what}: expected one of {known}, got {given!r}")
        if given != "default":
            raise ArgumentError(
                f"[Parameter {self.name}] {what}: expected 'default', got {given!r}; arrays are dense"
            )

    def __repr__(self) -> str:
        return f"Parameter {self.name} (shape={self.shape}, dtype={self.dtype})"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_trainers": ()}  # which copies of trainers set

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if (
            self._data is not None and self._grad is not None
        ):  # copies of arrays have no gradients by themselves
            autograd.mark_variables(self._data, self._grad, self._grad_req)

    # ---- what it is ----

    @property
    def grad_req(self) -> str:
        """What backward does with the gradient; may be set at any time."""
        return self._grad_req

    @grad_req.setter
    def grad_req(self, req: str) -> None:
        if req not in _REQUESTS:
            known = ", ".join(map(repr, _REQUESTS))
            raise RefusedError(f"[Parameter {self.name}] grad_req: expected one of {known}, got {req!r}")
        if not self._differentiable:
            req = "null"
        if self._grad_req == req:
            return
        if req == "null" and self._grad is not None:
            self._data = [array.detach() for array in self._data or ()]
            self._grad = None
        elif self._data is not None:
            self._init_grad(self._data, req)
        self._grad_req = req  # the last: what is interrupted can be asked for again

    @property
    def dtype(self) -> Any:
        """The element type, as it was given; setting it casts."""
        return self._dtype

    @dtype.setter
    def dtype(self, dtype: Any) -> None:
        self.cast(dtype)

    @property
    def shape(self) -> Shape | None:
        """The shape; 0 is an unknown dimension, in NumPy's mode −1. What is known of it cannot be changed."""
        if self._shape is None or not is_np_shape():
            return self._shape
        return tuple(size if size != 0 else -1 for size in self._shape)

    @shape.setter
    def shape(self, new_shape: Sequence[int]) -> None:
        if self._shape is not None and not fits(new_shape, self._shape):
            raise RefusedError(
                f"[Parameter {self.name}] shape: expected {self._shape}, got {tuple(new_shape)}; a parameter keeps "
                "the shape that it was given or that the first batch gave: make the block anew for another one"
            )
        self._shape = stored(new_shape)

    def _add_trainer(self, trainer: Trainer) -> None:
        """Names a trainer that has to know when the parameter is set, moved or cast."""
        self._trainers = (
            *(weakref.ref(each) for each in self._told() if each is not trainer),
            weakref.ref(trainer),
        )

    @property
    def _trainer(self) -> Trainer | None:
        """The trainer that took the parameter last: MXNet's name for the one it knows."""
        told = self._told()
        return told[-1] if told else None

    def _set_trainer(self, trainer: Trainer | None) -> None:
        """Takes a trainer, or leaves all: MXNet's name."""
        if trainer is None:
            self._trainers = ()
        else:
            self._add_trainer(trainer)

    def _told(self) -> list[Trainer]:
        return [trainer for each in self._trainers if (trainer := each()) is not None]

    # ---- first values ----

    def initialize(
        self,
        init: Init = None,
        ctx: Contexts = None,
        default_init: Init = initializer.Uniform(),
        force_reinit: bool = False,
    ) -> None:
        """Gives the parameter values on one or several contexts; later, if its shape is unknown and may be.

        Parameters
        ----------
        init : Initializer or str, optional
            Instead of the parameter's own.
        ctx : Context or sequence of them, optional
            The thread's default without.
        default_init : Initializer or str
            Where there is neither.
        force_reinit : bool
            Replace values that are there; without it they stay, with a warning.

        Raises
        ------
        ArgumentError  the shape is unknown and `allow_deferred_init` is not set
        """
        if self._data is not None and not force_reinit:
            warn(f"[Parameter {self.name}] has values already, which stay; force_reinit=True replaces them")
            return
        for trainer in self._told():
            trainer._values_changed(self)
        self._data = self._grad = None
        if init is None:
            init = default_init if self.init is None else self.init
        if not is_known(self.shape) and not self._allow_deferred_init:
            raise ArgumentError(f"[Parameter {self.name}] cannot be initialised: unknown shape {self.shape}")
        self._deferred_init = Deferred(init, contexts_of(ctx), default_init)
        if is_known(self.shape):
            self._finish_deferred_init()
        self._tell_trainer()

    def _finish_deferred_init(self) -> None:
        """Does what `initialize` has put off; the shape must be known."""
        with _finishing:
            waiting = self._deferred_init
            if waiting is None:
                return
            if self._shape is None or not is_known(self.shape):
                raise RefusedError(
                    f"[Parameter {self.name}] cannot be initialised: unknown shape {self.shape}; give the layer its "
                    "in_units, in_channels or the like"
                )
            with autograd.pause():
                data = waiting.data
                if data is None:
                    data = filled(self.name, self._shape, self._dtype, waiting.init, waiting.default_init)
                self._init_impl(data, waiting.contexts)
            self._deferred_init = None

    def _init_impl(self, data: NDArray, contexts: Sequence[Context]) -> None:
        listed = list(contexts)
        arrays = [data.copyto(ctx) for ctx in listed]
        self._init_grad(arrays, self._grad_req)
        self._ctx_list = listed
        self._places = {_place(ctx): i for i, ctx in enumerate(listed)}
        self._data = arrays  # the last: other threads compute as soon as there are values

    def _init_grad(self, arrays: list[NDArray], req: str) -> None:
        if req == "null":
            self._grad = None
            return
        grads = [nd.zeros(x.shape, ctx=x.context, dtype=dtypes.name(x._dtype_code)) for x in arrays]
        autograd.mark_variables(arrays, grads, req)
        self._grad = grads

    # ---- values and gradients ----

    def data(self, ctx: Context | None = None) -> NDArray:
        """The values on a context.

        Parameters
        ----------
        ctx : Context, optional
            Where there are several and none is given, the thread's default.

        Raises
        ------
        DeferredInitializationError  no batch has told the shape yet
        MXNetError                   never initialised, or not on this context
        """
        arrays = self._data
        if arrays is not None and ctx is None and len(arrays) == 1:
            return arrays[0]
        return self._on(arrays, ctx)

    def list_data(self) -> list[NDArray]:
        """The values on all contexts, in the order of `initialize`; raises as `data` does."""
        return self._all(self._data)

    def grad(self, ctx: Context | None = None) -> NDArray:
        """The gradient on a context; raises as `data` does, and where `grad_req` is "null"."""
        self._expect_gradient()
        return self._on(self._grad, ctx)

    def list_grad(self) -> list[NDArray]:
        """The gradients on all contexts; raises as `grad` does."""
        self._expect_gradient()
        return self._all(self._grad)

    def list_ctx(self) -> list[Context]:
        """Contexts it is, or will be, initialised on."""
        if self._data is not None:
            return self._ctx_list
        if self._deferred_init is not None:
            return self._deferred_init.contexts
        raise MXNetError(self._uninitialised())

    def row_sparse_data(self, row_id: NDArray) -> NDArray:
        """Raises MXNetError: the values are dense."""
        raise MXNetError(
            f"[Parameter {self.name}] row_sparse_data: the storage type is 'default'; use data()"
        )

    def list_row_sparse_data(self, row_id: NDArray) -> list[NDArray]:
        """Raises MXNetError: the values are dense."""
        raise MXNetError(
            f"[Parameter {self.name}] list_row_sparse_data: the storage type is 'default'; use list_data()"
        )

    def zero_grad(self) -> None:
        """Fills the gradients with 0."""
        for array in self._grad or ():
            array[:] = 0

    def set_data(self, data: Any) -> None:
        """Sets the values on all contexts.

        Parameters
        ----------
        data : array of the parameter's shape

        Raises
        ------
        RefusedError  another shape, or not initialised
        """
        self.shape = data.shape
        if self._data is None:
            if self._deferred_init is None:
                raise RefusedError(self._uninitialised())
            array = data if isinstance(data, NDArray) else nd.array(data)
            self._deferred_init.data = array.astype(self._dtype)  # a copy: the caller may write to the array
            return
        for trainer in self._told():
            trainer._values_changed(self)
        for array in self._data:
            array[:] = data

    def reset_ctx(self, ctx: Contexts) -> None:
        """Moves the parameter to other contexts; the mean of its copies becomes the value on each."""
        contexts = contexts_of(ctx)
        if self._data is not None:
            data = self._reduce()
            with autograd.pause():
                self._init_impl(data, contexts)
        elif self._deferred_init is not None:
            self._deferred_init.contexts = contexts
        else:
            raise ArgumentError(self._uninitialised())
        self._tell_trainer()

    def _tell_trainer(self) -> None:
        for trainer in self._told():
            trainer._places_known = False

    def cast(self, dtype: Any) -> None:
        """Changes the element type of values and gradients, which become new arrays."""
        dtypes.code(dtype, f"[Parameter {self.name}] cast")
        self._dtype, self._var = dtype, None
        for trainer in self._told():
            trainer._types_known = False
        if self._data is None:
            return
        with autograd.pause():
            self._data = [array.astype(dtype) for array in self._data]
            if self._grad is not None:
                self._grad = [array.astype(dtype) for array in self._grad]
                autograd.mark_variables(self._data, self._grad, self._grad_req)

    def var(self) -> Symbol:
        """The variable that stands for the parameter in graphs."""
        if self._var is None:
            self._var = var(
                self.name, shape=self.shape, dtype=self._dtype, lr_mult=self.lr_mult, wd_mult=self.wd_mult,
                init=self.init, stype="default",
            )  # fmt: skip
        return self._var

    def _rename(self, name: str) -> None:
        self.name, self._var = name, None

    def _reduce(self) -> NDArray:
        """A copy of the values in main memory: the mean of all contexts."""
        arrays = self.list_data()
        with autograd.pause():
            if len(arrays) == 1:
                return arrays[0].copyto(cpu())
            kind = dtypes.name(arrays[0]._dtype_code)
            wide = "float32" if kind in ("float16", "bfloat16") else kind  # a sum of 16 bits may overflow
            total: NDArray = nd.add_n(*(array.copyto(cpu()).astype(wide) for array in arrays))
            return (total / len(arrays)).astype(kind)

    def _expect_gradient(self) -> None:
        if self._data is not None and self._grad is None:
            raise MXNetError(f"[Parameter {self.name}] has no gradient: grad_req is 'null'")

    def _all(self, arrays: list[NDArray] | None) -> list[NDArray]:
        if arrays is None:
            self._raise_uninitialised()
        return arrays  # type: ignore[return-value]  # the line above raises

    def _on(self, arrays: list[NDArray] | None, ctx: Context | None) -> NDArray:
        found = self._all(arrays)
        if ctx is None:
            if len(found) == 1:
                return found[0]
            ctx = current_context()
        place = self._places.get(_place(ctx))
        if place is None:
            raise MXNetError(
                f"[Parameter {self.name}] is not on {ctx}; it was initialised on {self._ctx_list}"
            )
        return found[place]

    def _raise_uninitialised(self) -> None:
        # values that are there by now came from another thread, after the caller had looked
        if self._deferred_init is not None or self._data is not None:
            raise DeferredInitializationError(
                f"[Parameter {self.name}] has no values yet: its shape {self.shape} is known after the first batch "
                "through the network; or give the layers in_units, in_channels and the like"
            )
        raise MXNetError(self._uninitialised())

    def _uninitialised(self) -> str:
        return (
            f"[Parameter {self.name}] was not initialised: call initialize() or load_parameters() of the block that "
            "has it, or give SymbolBlock.imports its param_file; `params` of another block lack it, unlike what "
            "collect_params() returns"
        )


def _place(ctx: Context) -> tuple[int, int]:
    kind = ctx.device_typeid
    return 1 if kind in _HOST else kind, ctx.device_id
