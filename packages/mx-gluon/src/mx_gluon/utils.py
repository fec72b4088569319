# SPDX-License-Identifier: Apache-2.0
"""Helpers of training loops: batches split over contexts, gradients clipped by their common norm, files."""

from __future__ import annotations

import hashlib
import math
import os
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mx_core import dtypes
from mx_core.context import Context
from mx_core.errors import ArgumentError, MissingFileError
from mx_gluon.block.hooks import HookHandle as HookHandle
from mx_gluon.errors import RefusedError
from mx_gluon.parameter.shapes import is_known
from mx_ndarray import NDArray, nd

#: MXNet's name
shape_is_known = is_known


def split_data(data: NDArray, num_slice: int, batch_axis: int = 0, even_split: bool = True) -> list[NDArray]:
    """A batch as several slices along one axis.

    Parameters
    ----------
    even_split : bool
        Refuse a batch that `num_slice` does not divide; without it the first slices have one more.

    Raises
    ------
    ArgumentError  the batch is not divided evenly, or has fewer examples than slices
    """
    size = data.shape[batch_axis]
    least, extra = divmod(size, num_slice)
    if (even_split and extra) or not least:
        cure = "give a multiple of it, or even_split=False" if least else "give at least as many"
        raise ArgumentError(
            f"[split_data] {size} examples along axis {batch_axis} of shape {data.shape} do not make {num_slice} "
            f"{'equal ' if even_split else ''}slices; {cure}"
        )
    slices, begin = [], 0
    for i in range(num_slice):
        end = begin + least + (i < extra)
        if batch_axis == 0:
            slices.append(data[begin:end])
        else:
            slices.append(nd.slice_axis(data, axis=batch_axis, begin=begin, end=end))
        begin = end
    return slices


def split_and_load(
    data: Any, ctx_list: Sequence[Context], batch_axis: int = 0, even_split: bool = True
) -> list[NDArray]:
    """A batch as one slice per context, each on its context.

    Parameters
    ----------
    data : NDArray, NumPy array or nested lists
    """
    if not isinstance(data, NDArray):
        data = nd.array(data, ctx=ctx_list[0])
    if len(ctx_list) == 1:
        return [data.as_in_context(ctx_list[0])]
    slices = split_data(data, len(ctx_list), batch_axis, even_split)
    return [part.as_in_context(ctx) for part, ctx in zip(slices, ctx_list, strict=True)]


def clip_global_norm(
    arrays: Sequence[NDArray], max_norm: float, check_isfinite: bool = True
) -> float | NDArray:
    """Scales arrays in place so that the norm of all together is at most `max_norm`.

    Parameters
    ----------
    check_isfinite : bool
        Warn if the norm is not finite. That blocks; without it the norm comes as an array, asynchronously.

    Returns
    -------
    float or NDArray of shape (1,)
        The norm before.
    """
    if not arrays:
        raise RefusedError("[clip_global_norm] arrays: expected at least one, got none")
    ctx = arrays[0].context
    flat = [_wide(array.reshape((-1,))) for array in arrays]
    norm: NDArray = nd.sqrt(nd.add_n(*(nd.dot(x, x).as_in_context(ctx).reshape((1,)) for x in flat)))
    if check_isfinite and not math.isfinite(norm.asscalar()):
        warnings.warn(
            "[clip_global_norm] the norm is nan or inf: the arrays become meaningless", stacklevel=2
        )
    scale = nd.minimum(max_norm / (norm + 1e-8), 1.0)
    for array in arrays:
        wide = _wide(array)
        array[:] = nd.broadcast_mul(wide, scale.as_in_context(array.context).reshape((1,) * array.ndim))
    return float(norm.asscalar()) if check_isfinite else norm


def _wide(array: NDArray) -> NDArray:
    """An array whose squares do not overflow: a 16-bit one as float32."""
    return array.astype("float32") if dtypes.name(array._dtype_code) in ("float16", "bfloat16") else array


def check_sha1(filename: str | os.PathLike[str], sha1_hash: str) -> bool:
    """Whether the SHA-1 of a file is the expected one, in hexadecimal digits."""
    with open(filename, "rb") as file:
        return hashlib.file_digest(file, "sha1").hexdigest() == sha1_hash


def replace_file(src: str | os.PathLike[str], dst: str | os.PathLike[str]) -> None:
    """Renames a file over another one, at once or not at all."""
    os.replace(src, dst)


def download(
    url: str,
    path: str | None = None,
    overwrite: bool = False,
    sha1_hash: str | None = None,
    retries: int = 5,
    verify_ssl: bool = True,
) -> str:
    """The local file that a URL stands for. Nothing is fetched: the file must be there.

    Parameters
    ----------
    url : str
        Its last part is the file's name.
    path : str, optional
        The file, or the folder that it is in; the current folder without.
    sha1_hash : str, optional
        That the file must have.

    Returns
    -------
    str
        The file's path.

    Raises
    ------
    MissingFileError  the file is not there; the message says where to put it
    ArgumentError     it has another SHA-1
    """
    name = url.rsplit("/", 1)[-1]
    place = Path(name) if path is None else Path(path).expanduser()
    file = place / name if place.is_dir() else place
    if not name and file.is_dir():
        raise RefusedError(f"[download] {url!r} names no file; give a path")
    if not file.exists():
        raise MissingFileError(
            f"[download] no network connection is opened here: fetch {url} and put it at {file}"
        )
    if sha1_hash is not None and not check_sha1(file, sha1_hash):
        raise ArgumentError(f"[download] {file}: expected SHA-1 {sha1_hash}; fetch {url} again")
    return str(file)
