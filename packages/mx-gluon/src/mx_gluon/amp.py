# SPDX-License-Identifier: Apache-2.0
"""Mixed precision in Gluon: the scale of the loss, and blocks that compute in 16 bits."""

from __future__ import annotations

import logging
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from mx_core.context import Context
from mx_core.errors import ArgumentError, MXNetError
from mx_gluon.block import HybridBlock, SymbolBlock
from mx_gluon.errors import RefusedError
from mx_gluon.trainer import Trainer
from mx_gluon.trainer.updates import Work
from mx_kvstore import KVStoreBase
from mx_ndarray import NDArray, nd
from mx_ndarray.several import make_stale
from mx_symbol import Group, Symbol, amp

#: steps without overflow after which the scale is doubled, and the largest scale, as in MXNet
_WINDOW = 2000
_LARGEST = 2.0**24
#: the smallest scale: the smallest normal number of float32, in which losses are
_SMALLEST = 2.0**-126
#: steps left out in a row, after which a warning says that the scale is not the reason
_MANY = 40


class LossScaler:
    """The number by which a loss is multiplied, so that small gradients of float16 do not vanish.

    A step whose gradients are not finite halves it, down to 2^-126, and 2000 others in a row double it. As in MXNet the
    step after such a step still has the former scale. 40 such steps in a row are logged as a warning.

    Threads: one at a time.

    Parameters
    ----------
    loss_scale : float
    is_fixed : bool
        Whether it stays, as for bfloat16, which has the range of float32. Gradients are not looked at then.

    Source: Micikevicius et al., Mixed Precision Training, ICLR 2018.
    """

    _skipped = 0

    def __init__(self, loss_scale: float = 2.0**16, is_fixed: bool = False) -> None:
        self._loss_scale = self._next_loss_scale = loss_scale
        self._is_fixed = is_fixed
        self._unskipped = 0

    @property
    def loss_scale(self) -> float:
        """The present scale."""
        return self._loss_scale

    def has_overflow(self, params: Sequence[Any]) -> bool:
        """Whether a gradient is not finite; blocks, and adjusts the scale.

        Parameters
        ----------
        params : sequence of Parameter
        """
        return self._look([grad for p in params if p.grad_req != "null" for grad in p.list_grad()])

    def _look(self, grads: Iterable[NDArray]) -> bool:
        if self._is_fixed:
            return False
        by_context: dict[Context, list[NDArray]] = {}
        for grad in grads:
            by_context.setdefault(grad.context, []).append(grad)
        checks = [nd.multi_all_finite(*each, num_arrays=len(each)) for each in by_context.values()]
        overflow = not all(check.asscalar() for check in checks)
        self._loss_scale = self._next_loss_scale
        self._unskipped = 0 if overflow else self._unskipped + 1
        self._skipped = self._skipped + 1 if overflow else 0
        if overflow:
            self._next_loss_scale = max(_SMALLEST, self._loss_scale / 2)
            if self._skipped == _MANY:
                logging.warning(
                    "[amp] %d steps in a row were left out, for their gradients are not finite; the scale of the loss "
                    "is %g now: it is not the reason. Look at the data and the loss, or take a smaller learning rate",
                    _MANY, self._loss_scale,
                )  # fmt: skip
        elif self._unskipped == _WINDOW:
            self._unskipped = 0
            self._next_loss_scale = min(_LARGEST, self._loss_scale * 2)
        return overflow


class _Scaling(Trainer):
    """A Trainer that leaves out steps whose gradients are not finite."""

    _amp_loss_scaler: LossScaler
    _amp_original_scale: float
    _amp_skips = False

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Its class may be made by `init_trainer`: a copy gets it from the class that the Trainer had before."""
        kind: type[Trainer] = getattr(type(self), "_amp_kind", Trainer)
        made = super().__reduce_ex__(protocol)
        if not isinstance(made, tuple) or made[1][:1] != (type(self),):
            return made
        return (_made_again, (made[0], kind, *made[1][1:]), *made[2:])

    def _place(self, store: KVStoreBase) -> bool:
        """Whether the store runs the optimizer: no distributed one does while the scale moves."""
        if self._wanted_place is None and _moves(self, store) and "async" not in store.type:
            return False
        in_store = super()._place(store)
        if in_store and _moves(self, store):
            raise RefusedError(_IN_NETWORK.format(store.type))
        return in_store

    def _allreduce_grads(self) -> None:
        if self._kvstore is not None and self._update_on_kvstore:
            self._amp_skips = self._amp_loss_scaler._look(self._pushed(self._given_to(self._kvstore)))
            if self._amp_skips:
                return
        super()._allreduce_grads()

    def _pushed(self, indices: Container[int]) -> Iterator[NDArray]:
        """Gradients that a store gets: of contexts without one beside others that have one it gets zeros."""
        for i, param in enumerate(self._params):
            if param.grad_req == "null" or i in self._repeated or i not in indices:
                continue
            fresh = [weight._fresh_grad for weight in param.list_data()]
            for grad, is_fresh in zip(param.list_grad(), fresh, strict=True):
                if is_fresh or not any(fresh):
                    yield grad

    def _apply(self, work: list[Work]) -> None:
        grads = (grad for _, each, _ in work for grad in each)
        if self._update_on_kvstore or not self._amp_loss_scaler._look(grads):
            super()._apply(work)
            return
        for _, _, weights in work:
            make_stale(weights)


#: one worker's gradients may be finite where another's are not, and a step is left out by all or by none
_IN_NETWORK = (
    "[amp] the store {!r} runs the optimizer, which divides gradients by one number in all steps, and the scale of "
    "float16's loss changes; make the Trainer with a synchronous store and update_on_kvstore=False, or take bfloat16"
)


def _moves(trainer: Any, store: KVStoreBase) -> bool:
    """Whether the workers of a distributed store would scale each by its own number."""
    return not trainer._amp_loss_scaler._is_fixed and "dist" in store.type


def _scaling(kind: type[Trainer]) -> type[Trainer]:
    """A class of Trainer that scales."""
    if issubclass(kind, _Scaling):
        return kind
    if kind is Trainer:
        return _Scaling
    return type(f"Scaling{kind.__name__}", (_Scaling, kind), {"_amp_kind": kind})


def _made_again(make: Any, kind: type[Trainer], *args: Any) -> Any:
    return make(_scaling(kind), *args)


def init_trainer(trainer: Trainer) -> None:
    """Has a Trainer leave out steps whose gradients are not finite; `amp.init` comes first.

    For float16 the loss is scaled by a number that adjusts itself, beginning with 65536; for bfloat16 it is 1. With
    float16 the workers of a distributed store run the optimizer themselves, on the sums, which are finite for all of
    them or for none.

    Parameters
    ----------
    trainer : Trainer

    Raises
    ------
    MXNetError     `amp.init` was not called
    ArgumentError  it is something else
    RefusedError   float16, and a distributed store has the optimizer already; the first step raises it, too, where
                   `update_on_kvstore` is True or the store is asynchronous
    """
    dtype = amp.target()
    if dtype is None:
        raise MXNetError("[amp.init_trainer] call amp.init first")
    if not isinstance(trainer, Trainer):
        raise ArgumentError(f"[amp.init_trainer] trainer: expected a Trainer of Gluon, got {trainer!r:.80}")
    scaling: Any = trainer
    store = trainer._kvstore
    if dtype == "float16" and store is not None and trainer._update_on_kvstore and "dist" in store.type:
        raise RefusedError(_IN_NETWORK.format(store.type))
    if not hasattr(trainer, "_amp_original_scale"):
        scaling._amp_original_scale = trainer._scale
    scaling._amp_loss_scaler = LossScaler() if dtype == "float16" else LossScaler(1.0, is_fixed=True)
    trainer.__class__ = _scaling(type(trainer))


def _scaler(trainer: Any, what: str) -> LossScaler:
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    if scaler is None:
        raise MXNetError(f"[amp.{what}] trainer: call amp.init_trainer with it first")
    found: LossScaler = scaler
    return found


@contextmanager
def scale_loss(loss: Any, trainer: Trainer) -> Iterator[Any]:
    """Gives the loss multiplied by the scale of a Trainer, whose next step divides gradients by it.

    It is used while the computation is recorded.

    Parameters
    ----------
    loss : NDArray, or sequence of NDArray
        For instance one for each context.
    trainer : Trainer
        That `init_trainer` got.

    Raises
    ------
    MXNetError  `init_trainer` was not called

    Examples
    --------
    >>> with autograd.record():
    ...     loss = loss_function(net(x), y)
    ...     with amp.scale_loss(loss, trainer) as scaled:
    ...         autograd.backward(scaled)
    >>> trainer.step(len(x))
    """
    scale = _scaler(trainer, "scale_loss").loss_scale
    made: Any = trainer
    trainer._scale = made._amp_original_scale / scale
    if isinstance(loss, (list, tuple)):
        yield [each * scale for each in loss]
    else:
        yield loss * scale


def unscale(trainer: Trainer) -> None:
    """Divides gradients by the scale before the step, so that they can be clipped, for instance; asynchronous.

    A Trainer that `init_trainer` has not got stays as it is.
    """
    scaler = getattr(trainer, "_amp_loss_scaler", None)
    if scaler is None:
        return
    made: Any = trainer
    scale = made._amp_original_scale / trainer._scale
    for param in trainer._params:
        if param.grad_req != "null":
            for grad in param.list_grad():
                grad[:] = grad / scale
    trainer._scale = made._amp_original_scale


def convert_hybrid_block(
    block: HybridBlock,
    target_dtype: str = "bfloat16",
    target_dtype_ops: Sequence[str] | None = None,
    fp32_ops: Sequence[str] | None = None,
    conditional_fp32_ops: amp.Conditional | None = None,
    excluded_sym_names: Sequence[str] | None = None,
    ctx: Context | Sequence[Context] | None = None,
    cast_optional_params: bool = False,
) -> SymbolBlock:
    """A block that computes its products in 16 bits, with copies of the parameters of another one.

    Parameters
    ----------
    block : HybridBlock
        Hybridised, and called once.
    target_dtype : "bfloat16" or "float16"
    target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, cast_optional_params
        As of `convert_model`.
    ctx : Context or sequence of them, optional
        Where its parameters are; where those of `block` are without.

    Returns
    -------
    SymbolBlock
        Inputs and outputs are of float32, parameters too unless `cast_optional_params` is set.

    Raises
    ------
    ArgumentError  it is no HybridBlock, or as `convert_symbol`
    MXNetError     it is not hybridised, or was not called
    """
    if not isinstance(block, HybridBlock):
        raise ArgumentError(f"[amp.convert_hybrid_block] block: expected a HybridBlock, got {block!r:.80}")
    if not block._cached_graph:
        raise MXNetError("[amp.convert_hybrid_block] block: call hybridize, and the block once, first")
    inputs, graph = block._cached_graph
    symbol: Symbol = Group(graph) if isinstance(graph, (list, tuple)) else graph
    own = {name: each for name, each in block.collect_params().items() if name in _names(symbol)}
    values = {name: each.list_data()[0] for name, each in own.items()}
    auxiliary = set(symbol.list_auxiliary_states())
    converted, arguments, states = amp.convert_model(
        symbol,
        {name: value for name, value in values.items() if name not in auxiliary},
        {name: value for name, value in values.items() if name in auxiliary},
        target_dtype, target_dtype_ops, fp32_ops, conditional_fp32_ops, excluded_sym_names, cast_optional_params,
    )  # fmt: skip
    made = SymbolBlock(converted, inputs)
    for name, value in {**arguments, **states}.items():
        parameter = made.collect_params()[name]
        parameter.shape = value.shape
        parameter.cast(value.dtype)
        parameter.initialize(init="zeros", ctx=own[name].list_ctx() if ctx is None else ctx)
        parameter.set_data(value)
        parameter.grad_req = own[name].grad_req
    return made


def _names(symbol: Symbol) -> set[str]:
    return {*symbol.list_arguments(), *symbol.list_auxiliary_states()}
