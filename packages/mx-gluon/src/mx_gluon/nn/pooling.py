# SPDX-License-Identifier: Apache-2.0
"""Pooling over 1, 2 and 3 axes: maxima and means of windows, or of everything."""

from __future__ import annotations

from typing import Any, ClassVar

from mx_gluon.block import HybridBlock
from mx_gluon.nn.extents import Extent, check_layout, extent

#: layouts per number of axes
LAYOUTS = {1: ("NCW", "NWC"), 2: ("NCHW", "NHWC"), 3: ("NCDHW", "NDHWC")}


class _Pooling(HybridBlock):
    """What all layers of pooling share."""

    _axes: ClassVar[int]
    _pool_type: ClassVar[str]

    def __init__(
        self,
        pool_size: Extent,
        strides: Extent | None,
        padding: Extent,
        ceil_mode: bool,
        global_pool: bool,
        layout: str,
        count_include_pad: bool | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        what = f"[{self.name}]"
        check_layout(layout, LAYOUTS[self._axes], what)
        size = extent(pool_size, self._axes, f"{what} pool_size")
        self._kwargs: dict[str, Any] = {
            "kernel": size,
            "stride": size if strides is None else extent(strides, self._axes, f"{what} strides"),
            "pad": extent(padding, self._axes, f"{what} padding"),
            "global_pool": global_pool,
            "pool_type": self._pool_type,
            "layout": layout,
            "pooling_convention": "full" if ceil_mode else "valid",
        }
        if count_include_pad is not None:
            self._kwargs["count_include_pad"] = count_include_pad

    def _alias(self) -> str:
        return "pool"

    def hybrid_forward(self, F: Any, x: Any) -> Any:
        """A value per window."""
        return F.Pooling(x, name="fwd", **self._kwargs)

    def __repr__(self) -> str:
        given = self._kwargs
        return (
            f"{type(self).__name__}(size={given['kernel']}, stride={given['stride']}, padding={given['pad']}, "
            f"ceil_mode={given['pooling_convention'] == 'full'}, global_pool={given['global_pool']}, "
            f"pool_type={given['pool_type']}, layout={given['layout']})"
        )


class MaxPool1D(_Pooling):
    """The maxima of windows along one axis.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    pool_size, strides, padding : int or sequence of int
        Elements per axis; without `strides` windows do not overlap.
    layout : {"NCW", "NWC"}
    ceil_mode : bool
        Round the number of windows up.
    """

    _axes = 1
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Extent = 2,
        strides: Extent | None = None,
        padding: Extent = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class MaxPool2D(_Pooling):
    """The maxima of windows of images.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCHW", "NHWC"}
    pool_size, strides, padding, ceil_mode : as in `MaxPool1D`
    """

    _axes = 2
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Extent = (2, 2),
        strides: Extent | None = None,
        padding: Extent = 0,
        layout: str = "NCHW",
        ceil_mode: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class MaxPool3D(_Pooling):
    """The maxima of windows of volumes.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCDHW", "NDHWC"}
    pool_size, strides, padding, ceil_mode : as in `MaxPool1D`
    """

    _axes = 3
    _pool_type = "max"

    def __init__(
        self,
        pool_size: Extent = (2, 2, 2),
        strides: Extent | None = None,
        padding: Extent = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, **kwargs)


class AvgPool1D(_Pooling):
    """The means of windows along one axis.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCW", "NWC"}
    count_include_pad : bool
        Whether the padding counts as zeros.
    pool_size, strides, padding, ceil_mode : as in `MaxPool1D`
    """

    _axes = 1
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Extent = 2,
        strides: Extent | None = None,
        padding: Extent = 0,
        layout: str = "NCW",
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs)


class AvgPool2D(_Pooling):
    """The means of windows of images.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCHW", "NHWC"}
    count_include_pad : bool
        Whether the padding counts as zeros.
    pool_size, strides, padding, ceil_mode : as in `MaxPool1D`
    """

    _axes = 2
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Extent = (2, 2),
        strides: Extent | None = None,
        padding: Extent = 0,
        ceil_mode: bool = False,
        layout: str = "NCHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs)


class AvgPool3D(_Pooling):
    """The means of windows of volumes.

    Threads: as `HybridBlock`.

    Parameters
    ----------
    layout : {"NCDHW", "NDHWC"}
    count_include_pad : bool
        Whether the padding counts as zeros.
    pool_size, strides, padding, ceil_mode : as in `MaxPool1D`
    """

    _axes = 3
    _pool_type = "avg"

    def __init__(
        self,
        pool_size: Extent = (2, 2, 2),
        strides: Extent | None = None,
        padding: Extent = 0,
        ceil_mode: bool = False,
        layout: str = "NCDHW",
        count_include_pad: bool = True,
        **kwargs: Any,
    ) -> None:
        super().__init__(pool_size, strides, padding, ceil_mode, False, layout, count_include_pad, **kwargs)


class GlobalMaxPool1D(_Pooling):
    """The maximum of each channel of sequences; `layout` is "NCW" or "NWC". Threads: as `HybridBlock`."""

    _axes = 1
    _pool_type = "max"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool2D(_Pooling):
    """The maximum of each channel of images; `layout` is "NCHW" or "NHWC". Threads: as `HybridBlock`."""

    _axes = 2
    _pool_type = "max"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)


class GlobalMaxPool3D(_Pooling):
    """The maximum of each channel of volumes; `layout` is "NCDHW" or "NDHWC". Threads: as `HybridBlock`."""

    _axes = 3
    _pool_type = "max"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool1D(_Pooling):
    """The mean of each channel of sequences; `layout` is "NCW" or "NWC". Threads: as `HybridBlock`."""

    _axes = 1
    _pool_type = "avg"

    def __init__(self, layout: str = "NCW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool2D(_Pooling):
    """The mean of each channel of images; `layout` is "NCHW" or "NHWC". Threads: as `HybridBlock`."""

    _axes = 2
    _pool_type = "avg"

    def __init__(self, layout: str = "NCHW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)


class GlobalAvgPool3D(_Pooling):
    """The mean of each channel of volumes; `layout` is "NCDHW" or "NDHWC". Threads: as `HybridBlock`."""

    _axes = 3
    _pool_type = "avg"

    def __init__(self, layout: str = "NCDHW", **kwargs: Any) -> None:
        super().__init__(1, None, 0, True, True, layout, **kwargs)
