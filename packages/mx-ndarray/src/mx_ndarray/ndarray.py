# SPDX-License-Identifier: Apache-2.0
"""NDArray: an asynchronous, row-major array with MXNet 1.9's semantics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError
from mx_ndarray import _core
from mx_ndarray.methods import OperatorMethods
from mx_ndarray.operator_functions import function

if TYPE_CHECKING:
    from numpy.typing import NDArray as NumpyArray

_NUMBERS = (int, float, bool, np.generic)
_BFLOAT16 = dtypes.code("bfloat16")


class NDArray(OperatorMethods, _core.NDArrayBase):
    """A typed, row-major array on a device; results are computed asynchronously.

    Arrays are made by `array`, `zeros`, ... and by operators. Reading values (`asnumpy`,
    `asscalar`, printing) waits for them and raises what went wrong while computing them.
    Arithmetic broadcasts and does not promote types; comparisons give 0 and 1 in the type of the
    operands. Basic indexing gives a view exactly when the selected region is contiguous.

    Threads: any thread may use an array; reads and writes are ordered by the engine, and a read
    (`asnumpy`, `asscalar`) sees every write whole or not at all.
    """

    __slots__ = ()
    __array_priority__ = 1000.0

    def __new__(cls, *args: Any, **kwargs: Any) -> NDArray:
        """`NDArray(None)` is an array without elements, to which a pickle of MXNet gives its state.

        Raises
        ------
        TypeError  it is called otherwise
        """
        if args == (None,) and not kwargs:
            return _core.from_numpy(np.empty(0, np.float32), dtypes.code("float32"), (1, 0))
        return super().__new__(cls)  # which raises

    # ---- values ----

    def asnumpy(self) -> NumpyArray[Any]:
        """A NumPy copy; blocks until the array is computed."""
        return _core.as_numpy(self)

    def __bool__(self) -> bool:
        if self.size == 1:
            return bool(self.asscalar())
        if self.size == 0:
            return False
        raise ArgumentError(f"[bool] the truth value of shape {self.shape} is ambiguous; use one element")

    def __float__(self) -> float:
        return float(self.asscalar())

    def __int__(self) -> int:
        return int(self.asscalar())

    def __index__(self) -> int:
        if not np.issubdtype(self.dtype, np.integer):
            raise TypeError(f"only integer arrays with one element are indices, not {self.dtype}")
        return int(self.asscalar())

    def __len__(self) -> int:
        if self.ndim == 0:
            raise TypeError("len() of an array without axes")
        return self.shape[0]

    def __iter__(self) -> Iterator[NDArray]:
        for i in range(len(self)):
            yield self[i]

    def __reversed__(self) -> Iterator[NDArray]:
        return (self[i] for i in reversed(range(len(self))))

    def __repr__(self) -> str:
        shape = "x".join(map(str, self.shape))
        values = self.asnumpy()
        if self._dtype_code == _BFLOAT16:
            values = values.astype(np.float32)  # which NumPy prints as numbers with a point
        return f"\n{values!s}\n<{type(self).__name__} {shape} @{self.context}>"

    # ---- indexing ----

    def slice_assign(self, rhs: NDArray, begin: Any, end: Any, step: Any) -> NDArray:
        """Writes an array into the region from `begin` to `end`; returns this array."""
        return self._assign("_slice_assign", rhs, begin=begin, end=end, step=step)

    def slice_assign_scalar(self, value: float, begin: Any, end: Any, step: Any) -> NDArray:
        """Writes a number into the region from `begin` to `end`; returns this array."""
        settings = {"scalar": float(value), "begin": begin, "end": end, "step": step}
        return self._assign("_slice_assign_scalar", **settings)

    def _assign(self, operator: str, *inputs: NDArray, **settings: Any) -> NDArray:
        return function(operator)(self, *inputs, out=self, **settings)

    # ---- arithmetic that has no slot of its own ----

    def __neg__(self) -> NDArray:
        return function("negative")(self)

    def __abs__(self) -> NDArray:
        return function("abs")(self)

    def __matmul__(self, other: Any) -> NDArray:
        if isinstance(other, NDArray) and 0 < self.ndim <= 2 and 0 < other.ndim <= 2:
            return function("dot")(self, other)
        from mx_ndarray.products import matmul

        product: NDArray = matmul(self, other)
        return product

    def __rmatmul__(self, other: Any) -> NDArray:
        from mx_ndarray.products import matmul

        product: NDArray = matmul(other, self)
        return product

    # ---- shape, type, place ----

    @property
    def T(self) -> NDArray:
        """Axes reversed; of an array with fewer than two axes, the array itself."""
        return self if self.ndim < 2 else self.transpose()

    @property
    def stype(self) -> str:
        """Storage type: `default`, that is dense."""
        return "default"

    def tostype(self, stype: str) -> NDArray:
        """The array in another storage type; dense only."""
        if stype != "default":
            raise ArgumentError(f"[tostype] expected 'default', got {stype!r}: arrays are dense")
        return self

    def astype(self, dtype: Any, copy: bool = True) -> NDArray:
        """The values in another type, None is float32; a copy unless `copy` is False and it is the same."""
        code = dtypes.code(np.float32 if dtype is None else dtype, "[astype] dtype")
        if not copy and code == self._dtype_code:
            return self
        return function("Cast")(self, dtype=dtypes.name(code))

    def copy(self) -> NDArray:
        """The same values in memory of their own, on the same device."""
        return self.copyto(self.context)

    def copyto(self, other: NDArray | Context) -> NDArray:
        """Copies the values into another array of this shape, or to another device; asynchronous."""
        from mx_ndarray import views  # half of the time that a name of a module takes

        return views.copyto(self, other)

    def as_in_context(self, context: Context) -> NDArray:
        """The array on a device: itself if it is there, else a copy."""
        return self if self.context == context else self.copyto(context)

    as_in_ctx = as_in_context

    def as_nd_ndarray(self) -> NDArray:
        """Itself."""
        return self

    # ---- autograd ----

    def attach_grad(self, grad_req: str = "write", stype: str | None = None) -> None:
        """Makes this array a leaf whose gradient backward computes, into a new zero array.

        Parameters
        ----------
        grad_req : {"write", "add", "null"}
        """
        from mx_ndarray import autograd

        if stype not in (None, "default"):
            raise ArgumentError(f"[attach_grad] stype: expected 'default', got {stype!r}")
        autograd.attach(self, grad_req)

    def backward(
        self, out_grad: NDArray | None = None, retain_graph: bool = False, train_mode: bool = True
    ) -> None:
        """Computes the gradients of this array with respect to the leaves it depends on."""
        grads = None if out_grad is None else [out_grad]
        _core.backward([self], grads, None, retain_graph, False, train_mode)

    # ---- exchange ----

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NumpyArray[Any]:
        if copy is False:
            raise ValueError("an NDArray can only be converted to NumPy by a copy")
        values = self.asnumpy()
        return values if dtype is None else values.astype(dtype)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        from mx_ndarray.exchange import apply_function

        return apply_function(func, args, kwargs)

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        from mx_ndarray.exchange import apply_ufunc

        return apply_ufunc(ufunc, method, inputs, kwargs)

    def __dlpack__(
        self,
        *,
        stream: int | None = None,
        max_version: tuple[int, int] | None = None,
        dl_device: tuple[int, int] | None = None,
        copy: bool | None = None,
    ) -> Any:
        """A DLPack capsule; see `exchange.export`."""
        from mx_ndarray.exchange import export

        return export(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return _core.dlpack_device(self)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The memory of an array on a GPU, for CuPy, Numba and others; see `exchange.cuda_array_interface`."""
        from mx_ndarray.exchange import cuda_array_interface

        return cuda_array_interface(self)

    def to_dlpack_for_read(self) -> Any:
        """A DLPack capsule for reading; waits for writers."""
        return _core.to_dlpack(self, False, False, False)

    def to_dlpack_for_write(self) -> Any:
        """A DLPack capsule for writing; waits for readers and writers."""
        return _core.to_dlpack(self, True, False, False)

    def __reduce__(self) -> tuple[Any, ...]:
        from mx_ndarray.records import dump_record, restore

        place = self.context
        if place.device_type.startswith("cpu"):
            return restore, (dump_record(self),)
        return restore, (dump_record(self), place.device_type, place.device_id)

    def __getstate__(self) -> dict[str, bytearray]:
        """What a pickle of MXNet has of an array: a record as in `.params` files; blocks."""
        from mx_ndarray.records import dump_record

        return {"handle": bytearray(dump_record(self))}

    def __setstate__(self, state: Mapping[str, bytes | bytearray]) -> None:
        """Gives an array without elements, such as `NDArray(None)`, what `__getstate__` told of another one.

        Raises
        ------
        ArgumentError    the state is something else
        FileFormatError  the record is damaged, or of a sparse array
        MXNetError       this array has elements
        """
        from mx_ndarray.records import restore

        record = state.get("handle") if isinstance(state, Mapping) else None
        if not isinstance(record, (bytes, bytearray)):
            raise ArgumentError(
                f"[NDArray] state: expected a dict with the bytes of 'handle', got {state!r:.80}"
            )
        _core.take_array(self, restore(bytes(record)))

    def __deepcopy__(self, memo: dict[int, Any]) -> NDArray:
        return self.copy()


def operand(array: NDArray, other: Any) -> Any:
    """The other operand of Python's arithmetic as an array like `array`, if it can be one."""
    if isinstance(other, np.ndarray):
        values = np.ascontiguousarray(other, dtypes.numpy_dtype(array._dtype_code))
        values = values.reshape(other.shape)
        context = array.context
        return _core.from_numpy(values, array._dtype_code, (context.device_typeid, context.device_id))
    return NotImplemented


def integer_operand(array: NDArray, number: int) -> Any:
    """An array like `array` for an integer that float64, the type of run-time scalars, cannot represent."""
    return operand(array, np.full((1,) * array.ndim, number, array.dtype))
