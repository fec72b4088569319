# SPDX-License-Identifier: Apache-2.0
"""Pictures in a notebook that grow while a training runs; Bokeh draws them."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mx_core.errors import ArgumentError
from mx_train.notebook import optional
from mx_train.notebook.table import PandasLogger

if TYPE_CHECKING:
    from mx_train.model import BatchEndParam


class LiveBokehChart:
    """The base of pictures that grow: a subclass has `setup_chart`, which makes and shows one, and `update_chart_data`.

    Threads: one at a time.

    Parameters
    ----------
    pandas_logger : PandasLogger or None
        What is drawn; by default a logger of its own.
    metric_name : str
        The metric, as `accuracy`.
    display_freq : float
        Seconds between two drawings; a validation is drawn at once.
    batch_size, frequent : int
        Of the logger of its own.

    Raises
    ------
    MXNetError  Bokeh or pandas is not installed
    """

    def __init__(
        self,
        pandas_logger: PandasLogger | None,
        metric_name: str,
        display_freq: float = 10,
        batch_size: int | None = None,
        frequent: int = 50,
    ) -> None:
        optional.bokeh("io", type(self).__name__).output_notebook(hide_banner=True)
        self.pandas_logger = pandas_logger or PandasLogger(batch_size=batch_size or 1, frequent=frequent)
        self.metric_name = metric_name
        self.display_freq = display_freq
        self.last_update = time.perf_counter()
        self.handle: Any = self.setup_chart()

    def setup_chart(self) -> Any:
        """Makes and shows the picture, and returns Bokeh's handle of it."""
        raise NotImplementedError

    def update_chart_data(self) -> None:
        """Gives the picture the present numbers."""
        raise NotImplementedError

    def interval_elapsed(self) -> bool:
        """Whether it is time to draw."""
        return time.perf_counter() - self.last_update > self.display_freq

    def _push_render(self) -> None:
        optional.bokeh("io", type(self).__name__).push_notebook(handle=self.handle)
        self.last_update = time.perf_counter()

    def _do_update(self) -> None:
        self.update_chart_data()
        self._push_render()

    def batch_cb(self, param: BatchEndParam) -> None:
        """A `batch_end_callback` of `fit`."""
        if self.interval_elapsed():
            self._do_update()

    def eval_cb(self, param: BatchEndParam) -> None:
        """An `eval_end_callback` of `fit`."""
        self._do_update()

    def callback_args(self) -> dict[str, Callable[..., None]]:
        """Arguments of `fit` that draw."""
        return {"batch_end_callback": self.batch_cb, "eval_end_callback": self.eval_cb}


class _Figure:
    """A figure with lines that have points. Threads: one at a time."""

    def __init__(self, who: str, label: str, lines: dict[str, str], **options: Any) -> None:
        plotting = optional.bokeh("plotting", who)
        options = {"x_axis_type": "datetime", "x_axis_label": "Elapsed time", "y_axis_label": label} | options
        self.figure = plotting.figure(**options)
        self._sources = {}
        for name, colour in lines.items():
            source = plotting.ColumnDataSource({"x": [], "y": []})
            style = {"line_color": colour, "line_width": 2}
            self.figure.line("x", "y", source=source, legend_label=name, **style)
            self._sources[name] = source

    def show(self, who: str) -> Any:
        return optional.bokeh("io", who).show(self.figure, notebook_handle=True)

    def points(self, name: str) -> tuple[list[Any], list[Any]]:
        data = self._sources[name].data
        return list(data["x"]), list(data["y"])

    def draw(self, name: str, x: list[Any], y: list[Any]) -> None:
        self._sources[name].data = {"x": x, "y": y}


class LiveTimeSeries(LiveBokehChart):
    """Draws a number over time: each `update_chart_data(value)` is a point.

    Threads: one at a time.

    Parameters
    ----------
    **fig_params
        Of `bokeh.plotting.figure`, as `y_axis_label`.

    Raises
    ------
    MXNetError  Bokeh is not installed

    Examples
    --------
    >>> series = LiveTimeSeries(y_axis_label="loss")
    >>> series.update_chart_data(0.5)
    """

    def __init__(self, **fig_params: Any) -> None:
        who = type(self).__name__
        optional.bokeh("io", who).output_notebook(hide_banner=True)
        self._figure = _Figure(who, "", {"value": "blue"}, **fig_params)
        self._start = self.last_update = time.perf_counter()
        self.display_freq = 0
        self.handle = self.setup_chart()

    @property
    def x_axis_val(self) -> list[Any]:
        """The times of the points."""
        return self._figure.points("value")[0]

    @property
    def y_axis_val(self) -> list[Any]:
        """Their values."""
        return self._figure.points("value")[1]

    def setup_chart(self) -> Any:
        """Shows the picture."""
        return self._figure.show(type(self).__name__)

    def elapsed(self) -> datetime.timedelta:
        """Time since the picture was made."""
        return datetime.timedelta(seconds=time.perf_counter() - self._start)

    def update_chart_data(self, value: float | None = None) -> None:
        """Adds a point for now, and draws.

        Raises
        ------
        ArgumentError  there is no value
        """
        if value is None:
            raise ArgumentError("[LiveTimeSeries] value: expected a number, got None")
        x, y = self._figure.points("value")
        self._figure.draw("value", [*x, self.elapsed()], [*y, value])
        self._push_render()


class LiveLearningCurve(LiveBokehChart):
    """Draws a metric of the training and of its validation while `fit` runs.

    Threads: one at a time.

    Parameters
    ----------
    metric_name : str
        The metric, as `accuracy`.
    display_freq : float
        Seconds between two drawings.
    frequent : int
        Batches between two points of the training.

    Raises
    ------
    ArgumentError  `frequent` is below 1, or the training has no such metric
    MXNetError     Bokeh is not installed

    Examples
    --------
    >>> curve = LiveLearningCurve("accuracy", display_freq=2, frequent=50)
    >>> module.fit(data, validation, num_epoch=5, **curve.callback_args())
    """

    def __init__(self, metric_name: str, display_freq: float = 10, frequent: int = 50) -> None:
        who = type(self).__name__
        if frequent < 1:
            raise ArgumentError(f"[{who}] frequent: expected at least 1, got {frequent}")
        optional.bokeh("io", who).output_notebook(hide_banner=True)
        self.metric_name = metric_name
        self.display_freq = display_freq
        self.frequent = frequent
        self._start = self.last_update = time.perf_counter()
        self._data: dict[str, tuple[list[Any], list[float]]] = {"train": ([], []), "eval": ([], [])}
        self._figure = _Figure(who, metric_name, {"train": "red", "eval": "green"})
        self.handle = self.setup_chart()

    def setup_chart(self) -> Any:
        """Shows the picture."""
        return self._figure.show(type(self).__name__)

    def batch_cb(self, param: BatchEndParam) -> None:
        """A `batch_end_callback` of `fit`."""
        if param.nbatch % self.frequent == 0:
            self._add(param, "train")
        super().batch_cb(param)

    def eval_cb(self, param: BatchEndParam) -> None:
        """An `eval_end_callback` of `fit`."""
        self._add(param, "eval")
        super().eval_cb(param)

    def _add(self, param: BatchEndParam, name: str) -> None:
        metrics = {} if param.eval_metric is None else dict(param.eval_metric.get_name_value())
        if self.metric_name not in metrics:
            raise ArgumentError(
                f"[LiveLearningCurve] metric_name: the training has no metric {self.metric_name!r}; "
                f"metrics: {', '.join(metrics) or 'none'}"
            )
        elapsed, values = self._data[name]
        elapsed.append(datetime.timedelta(seconds=time.perf_counter() - self._start))
        values.append(float(metrics[self.metric_name]))
        if name == "train":
            param.eval_metric.reset_local()

    def update_chart_data(self) -> None:
        """Gives the picture the present numbers."""
        for name, (elapsed, values) in self._data.items():
            self._figure.draw(name, list(elapsed), list(values))
