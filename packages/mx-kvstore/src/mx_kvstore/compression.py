# SPDX-License-Identifier: Apache-2.0
"""Gradient compression with error feedback, in MXNet's layout of bits: what is not sent now is sent later."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Real
from typing import Any

import numpy as np
import numpy.typing as npt

from mx_core.errors import ArgumentError
from mx_kvstore import _core

_BITS = {"1bit": 1, "2bit": 2}
_SMALLEST, _LARGEST = float(np.finfo(np.float32).smallest_subnormal), float(np.finfo(np.float32).max)


class Compression:
    """How gradients of float32 become codes.

    `2bit`: each value is added to its residual. Where that is at least `threshold`, `threshold` is sent and taken from
    the residual; where it is at most `-threshold`, `-threshold`; otherwise nothing. `1bit`: 1 is sent where the
    residual exceeds `threshold`, and -1 elsewhere.

    Sixteen values of 2 bits, or 32 of 1 bit, are one word of 4 bytes; the first is in the high bits of the first byte.
    Of two bits 11 stands for `threshold`, 10 for `-threshold` and 00 for 0. Unused bits are 0.

    Threads: any; it does not change.

    Parameters
    ----------
    kind : {"2bit", "1bit"}
    threshold : float
        Finite; positive for `2bit`.

    Raises
    ------
    ArgumentError  another kind, or such a threshold

    Notes
    -----
    Source: F. Seide et al., "1-bit stochastic gradient descent and its application to data-parallel distributed
    training of speech DNNs" (2014); N. Strom, "Scalable distributed DNN training using commodity GPU cloud computing"
    (2015).

    Examples
    --------
    >>> import numpy as np
    >>> compression = Compression("2bit", 0.5)
    >>> gradient = np.array([0.75, -0.5, 0.25], np.float32)
    >>> residual, codes = np.zeros(3, np.float32), np.zeros(compression.words(3), np.uint32)
    >>> compression.compress(gradient, residual, codes)
    >>> sent = np.zeros(3, np.float32)
    >>> compression.expand(codes, sent)
    >>> sent.tolist(), residual.tolist()
    ([0.5, -0.5, 0.0], [0.25, 0.0, 0.25])
    """

    __slots__ = ("bits", "kind", "threshold")

    def __init__(self, kind: str = "2bit", threshold: float = 0.5) -> None:
        if not isinstance(kind, str) or kind not in _BITS:
            raise ArgumentError(f"[Compression] type: expected one of {', '.join(_BITS)}, got {kind!r}")
        usable = isinstance(threshold, Real) and abs(threshold) <= _LARGEST
        if not usable or (kind == "2bit" and threshold < _SMALLEST):  # 0 would be sent for ever
            wanted = "a positive number" if kind == "2bit" else "a finite number"
            raise ArgumentError(f"[Compression] threshold: expected {wanted}, got {threshold!r}")
        self.kind = kind
        self.bits = _BITS[kind]
        self.threshold = float(threshold)

    @staticmethod
    def of(params: Any) -> Compression:
        """From what `set_gradient_compression` takes: a mapping with `type` and maybe `threshold`.

        Raises
        ------
        ArgumentError  something else, or other keys
        """
        if not isinstance(params, Mapping) or "type" not in params:
            raise ArgumentError(
                f"[Compression] expected a dict with 'type' and maybe 'threshold', got {params!r}"
            )
        others = [key for key in params if key not in ("type", "threshold")]
        if others:
            raise ArgumentError(
                f"[Compression] expected 'type' and 'threshold', got {others[0]!r} in {dict(params)!r}"
            )
        return Compression(params["type"], params.get("threshold", 0.5))

    def __repr__(self) -> str:
        return f"Compression({self.kind!r}, {self.threshold!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Compression):
            return NotImplemented
        return (self.kind, self.threshold) == (other.kind, other.threshold)

    def __hash__(self) -> int:
        return hash((self.kind, self.threshold))

    def words(self, n: int) -> int:
        """How many words of 4 bytes the codes of n values take."""
        return -(-n * self.bits // 32)

    def compress(
        self,
        gradient: npt.NDArray[np.float32],
        residual: npt.NDArray[np.float32],
        codes: npt.NDArray[np.uint32],
    ) -> None:
        """Writes the codes of `gradient` and updates `residual`; without the GIL.

        Parameters
        ----------
        gradient, residual : arrays of float32 of one size, contiguous
        codes : array of uint32 of `words(gradient.size)`, contiguous

        Raises
        ------
        ShapeError, TypeError  other sizes or types
        """
        _core.compress(self.bits, self.threshold, gradient, residual, codes)

    def expand(self, codes: npt.NDArray[np.uint32], out: npt.NDArray[np.float32], add: bool = False) -> None:
        """Writes to `out` what codes stand for, or adds it; without the GIL.

        Parameters
        ----------
        codes : array of uint32 of `words(out.size)`, contiguous
        out : array of float32, contiguous
        add : bool
            To what is there.

        Raises
        ------
        ShapeError, TypeError  other sizes or types
        """
        _core.expand(self.bits, self.threshold, codes, out, add)
