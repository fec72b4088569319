# SPDX-License-Identifier: Apache-2.0
"""Philox 4x32-10 in NumPy: the numbers of `mx_core/philox.hpp`, for operators' references.

A stream is a 64-bit key; counter `c` of it yields four 32-bit words. Element `i` of an output takes
word `i` of the stream from counter `offset` on; float64 and integers take words `2 i` and `2 i + 1`,
the low one first. Words, uniforms and integers equal those of C++ and CUDA bit for bit; normals
differ by the rounding of log, sin and cos.

Source: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as 1, 2, 3", SC 2011.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mx_core.errors import ArgumentError, DTypeError

_U64 = np.uint64
_LOW = _U64(0xFFFFFFFF)
_HALF = _U64(32)
_MULTIPLIERS = (_U64(0xD2511F53), _U64(0xCD9E8D57))
_WEYL = (0x9E3779B9, 0xBB67AE85)
_CHUNK = 1 << 14  # counters at a time: the temporaries stay in cache


def words(key: int, offset: int, n_blocks: int, branch: int = 0) -> NDArray[np.uint32]:
    """The words of `n_blocks` counters from `offset` on.

    Parameters
    ----------
    key, offset : int
        Stream and first counter, modulo 2⁶⁴.
    branch : int
        Upper half of the counter: further draws in addition to the stream, which is branch 0.

    Returns
    -------
    uint32 array, shape (n_blocks, 4)
    """
    result = np.empty((n_blocks, 4), np.uint32)
    for begin in range(0, n_blocks, _CHUNK):
        end = min(begin + _CHUNK, n_blocks)
        first = _U64((offset + begin) % 2**64)
        counter = np.arange(end - begin, dtype=_U64) + first
        result[begin:end] = _rounds(key % 2**64, counter, branch % 2**64)
    return result


def _rounds(key: int, counter: NDArray[np.uint64], branch: int) -> NDArray[np.uint32]:
    keys = (key & 0xFFFFFFFF, key >> 32)
    c0, c1 = counter & _LOW, counter >> _HALF
    c2 = np.full_like(counter, branch & 0xFFFFFFFF)
    c3 = np.full_like(counter, branch >> 32)
    for step in range(10):
        k0, k1 = (_U64((k + step * w) & 0xFFFFFFFF) for k, w in zip(keys, _WEYL, strict=True))
        a, b = c0 * _MULTIPLIERS[0], c2 * _MULTIPLIERS[1]
        c0, c1, c2, c3 = (b >> _HALF) ^ c1 ^ k0, b & _LOW, (a >> _HALF) ^ c3 ^ k1, a & _LOW
    return np.stack((c0, c1, c2, c3), axis=1).astype(np.uint32)


def blocks(n: int, dtype: DTypeLike = np.float32) -> int:
    """Counters that `n` elements take: four elements each, two for 8-byte types."""
    per_block = 2 if np.dtype(dtype).itemsize >= 8 else 4
    return -(-n // per_block)


def _words32(key: int, offset: int, n: int) -> NDArray[np.uint32]:
    return words(key, offset, -(-n // 4)).reshape(-1)[:n]


def _words64(key: int, offset: int, n: int) -> NDArray[np.uint64]:
    pairs = words(key, offset, -(-n // 2)).reshape(-1, 2)[:n].astype(_U64)
    return pairs[:, 0] | (pairs[:, 1] << _HALF)


def _kind(dtype: DTypeLike) -> str:
    name = np.dtype(dtype).name
    if name not in ("float16", "bfloat16", "float32", "float64"):
        raise DTypeError(f"[philox] expected a floating-point type, got {name}")
    return name


def uniform(key: int, offset: int, n: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Uniform numbers in [0, 1).

    float32: a multiple of 2⁻²⁴; float64: of 2⁻⁵³; float16: of 2⁻¹¹; bfloat16: of 2⁻⁸.

    Returns
    -------
    array of `dtype`, shape (n,)
    """
    name = _kind(dtype)
    if name == "float64":
        return (_words64(key, offset, n) >> _U64(11)) * 2.0**-53
    bits = {"float32": 24, "float16": 11, "bfloat16": 8}[name]
    kept = _words32(key, offset, n) >> np.uint32(32 - bits)
    return (kept.astype(np.float32) * np.float32(2.0**-bits)).astype(dtype)


def normal(key: int, offset: int, n: int, dtype: DTypeLike = np.float32) -> NDArray[Any]:
    """Standard normal numbers by Box and Muller.

    Elements 2j and 2j+1 are r·cos t and r·sin t with r = √(−2 log u). float32: u = w₀·2⁻³² + 2⁻³³
    and t = 2π·⌊w₁/2⁸⌋·2⁻²⁴ of words 2j, 2j+1, in single precision (float16 and bfloat16 are rounded
    from it). float64: u = (⌊w₀/2¹¹⌋ + 1)·2⁻⁵³ and t = 2π·⌊w₁/2¹¹⌋·2⁻⁵³ of 64-bit words 2j, 2j+1.

    Returns
    -------
    array of `dtype`, shape (n,)
    """
    name = _kind(dtype)
    even = n + n % 2
    u: NDArray[Any]
    t: NDArray[Any]
    if name == "float64":
        w = _words64(key, offset, even)
        u = ((w[0::2] >> _U64(11)) + _U64(1)) * 2.0**-53
        t = (w[1::2] >> _U64(11)) * 2.0**-53 * (2 * np.pi)
    else:
        v = _words32(key, offset, even)
        u = v[0::2].astype(np.float32) * np.float32(2.0**-32) + np.float32(2.0**-33)
        t = (v[1::2] >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)
        t = t * np.float32(2 * np.pi)
    r = np.sqrt(-2 * np.log(u))
    return np.stack((r * np.cos(t), r * np.sin(t)), axis=1).reshape(-1)[:n].astype(dtype)


def integers(key: int, offset: int, n: int, low: int, high: int) -> NDArray[np.int64]:
    """Integers in [low, high): low + ⌊w·(high − low)/2⁶⁴⌋ with one 64-bit word each.

    Returns
    -------
    int64 array, shape (n,)

    Raises
    ------
    ArgumentError
        The interval is empty or does not fit in int64.
    """
    if not (-(2**63) <= low < high <= 2**63):
        raise ArgumentError(f"[philox] expected int64 bounds low < high, got [{low}, {high})")
    span = high - low
    w = _words64(key, offset, n)
    wl, wh = w & _LOW, w >> _HALF
    rl, rh = _U64(span & 0xFFFFFFFF), _U64(span >> 32)
    middle = wh * rl + ((wl * rl) >> _HALF)
    carry = (middle & _LOW) + wl * rh
    drawn: NDArray[np.uint64] = wh * rh + (middle >> _HALF) + (carry >> _HALF)
    return (drawn + _U64(low % 2**64)).view(np.int64)
