# SPDX-License-Identifier: Apache-2.0
"""EvalMetric: the base class, and metrics put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy import floating  # `np` is a metric here

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray
from mx_train.registry import Named, read_config

Arrays = Sequence[NDArray]
_family: Named[EvalMetric] = Named("metrics", "metric")


def register(cls: type[EvalMetric], *names: str) -> type[EvalMetric]:
    """Makes a metric known by its class name and `names`."""
    return _family.register(cls, *names)


class EvalMetric:
    """A sum over samples and their number, for an epoch (global) and since the last log (local).

    Threads: one at a time.

    Parameters
    ----------
    name : str
    output_names, label_names : sequence of str, optional
        Which outputs and labels `update_dict` takes; all by default.
    """

    #: of metrics whose own `reset` does not set them, and which so count in their own way
    global_num_inst = 0
    global_sum_metric = 0.0

    def __init__(
        self,
        name: str,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
        **kwargs: Any,
    ) -> None:
        self.name = str(name)
        self.output_names = output_names
        self.label_names = label_names
        kwargs.pop("has_global_stats", None)  # MXNet asks for it; here every metric that adds has them
        self._kwargs = kwargs
        self.reset()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Adds a batch; waits for it."""
        raise NotImplementedError

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Adds a batch given by names."""
        self.update(list(_chosen(label, self.label_names)), list(_chosen(pred, self.output_names)))

    def reset(self) -> None:
        """Forgets everything."""
        self.num_inst = 0
        self.sum_metric = 0.0
        self.global_num_inst = 0
        self.global_sum_metric = 0.0

    def reset_local(self) -> None:
        """Forgets what came since the last log."""
        self.num_inst = 0
        self.sum_metric = 0.0

    def _add(self, total: float, count: int) -> None:
        self.sum_metric += total
        self.num_inst += count
        self.global_sum_metric += total
        self.global_num_inst += count

    def _value(self, total: float, count: int) -> float:
        return total / count if count else float("nan")

    def get(self) -> tuple[Any, Any]:
        """Name and value since the last log."""
        return self.name, self._value(self.sum_metric, self.num_inst)

    def get_global(self) -> tuple[Any, Any]:
        """Name and value since the last reset; of a metric that counts in its own way, what `get` says."""
        if not self.global_num_inst:
            return self.get()
        return self.name, self._value(self.global_sum_metric, self.global_num_inst)

    def get_name_value(self) -> list[tuple[str, float]]:
        """`get` as a list of pairs."""
        return _pairs(*self.get())

    def get_global_name_value(self) -> list[tuple[str, float]]:
        """`get_global` as a list of pairs."""
        return _pairs(*self.get_global())

    def get_config(self) -> dict[str, Any]:
        """What `create` needs to make an equal one."""
        return self._kwargs | {
            "metric": type(self).__name__, "name": self.name,
            "output_names": self.output_names, "label_names": self.label_names,
        }  # fmt: skip

    def __str__(self) -> str:
        return f"EvalMetric: {dict(self.get_name_value())}"


def _chosen(arrays: Mapping[str, NDArray], names: Sequence[str] | None) -> Iterable[NDArray]:
    """Those of some names, or all; no names are none of them."""
    return arrays.values() if names is None else [arrays[name] for name in names]


def _pairs(names: Any, values: Any) -> list[tuple[str, float]]:
    if not isinstance(names, list):
        return [(names, values)]
    return list(zip(names, values, strict=True))


class CompositeEvalMetric(EvalMetric):
    """Several metrics of the same outputs."""

    def __init__(
        self,
        metrics: Sequence[Any] | None = None,
        name: str = "composite",
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        self.metrics = [create(m) for m in metrics or ()]
        super().__init__(name, output_names, label_names)

    def add(self, metric: Any) -> None:
        """One more."""
        self.metrics.append(create(metric))

    def get_metric(self, index: int) -> EvalMetric:
        """One of them."""
        return self.metrics[index]

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Updates all."""
        for metric in self.metrics:
            metric.update(labels, preds)

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Updates all, with the outputs and labels of the names that this metric was made with."""
        if self.label_names is not None:
            label = {name: array for name, array in label.items() if name in self.label_names}
        if self.output_names is not None:
            pred = {name: array for name, array in pred.items() if name in self.output_names}
        for metric in self.metrics:
            metric.update_dict(label, pred)

    def reset(self) -> None:
        """Resets all."""
        for metric in self.metrics:
            metric.reset()

    def reset_local(self) -> None:
        """Resets all."""
        for metric in self.metrics:
            metric.reset_local()

    def get(self) -> tuple[Any, Any]:
        """Lists of names and values."""
        pairs = [pair for m in self.metrics for pair in m.get_name_value()]
        return [n for n, _ in pairs], [v for _, v in pairs]

    def get_global(self) -> tuple[Any, Any]:
        """Lists of names and values."""
        pairs = [pair for m in self.metrics for pair in m.get_global_name_value()]
        return [n for n, _ in pairs], [v for _, v in pairs]

    def get_config(self) -> dict[str, Any]:
        """What `create` needs to make an equal one, with the configs of its metrics."""
        return super().get_config() | {"metrics": [metric.get_config() for metric in self.metrics]}


class CustomMetric(EvalMetric):
    """A function of (label, prediction) NumPy arrays that returns a value or (sum, count)."""

    def __init__(
        self,
        feval: Callable[[Any, Any], Any],
        name: str | None = None,
        allow_extra_outputs: bool = False,
        output_names: Sequence[str] | None = None,
        label_names: Sequence[str] | None = None,
    ) -> None:
        title = getattr(feval, "__name__", "<function>")
        title = f"custom({title})" if "<" in title else title
        super().__init__(name or title, output_names, label_names)
        self._feval = feval
        self._allow_extra_outputs = allow_extra_outputs

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Calls the function per output."""
        for label, pred in pairs(labels, preds, self.name, self._allow_extra_outputs):
            result = self._feval(label.asnumpy(), pred.asnumpy())
            total, count = result if isinstance(result, tuple) else (result, 1)
            self._add(
                float(total) if isinstance(total, floating) else total, count
            )  # float32 would sum in float32

    def get_config(self) -> dict[str, Any]:
        """There is none.

        Raises
        ------
        NotImplementedError  always: a function has no name under which `create` would find it
        """
        raise NotImplementedError(
            f"[{self.name}] a metric of a function has no config; create it with the function"
        )


def pairs(labels: Any, preds: Any, name: str, extra: bool = False) -> list[tuple[NDArray, NDArray]]:
    """Labels with predictions, one by one, as many as there are of both; ArgumentError when their numbers differ.

    With `extra` they may differ.
    """
    labels = [labels] if isinstance(labels, NDArray) else list(labels)
    preds = [preds] if isinstance(preds, NDArray) else list(preds)
    if len(labels) != len(preds) and not extra:
        raise ArgumentError(f"[{name}] {len(labels)} labels for {len(preds)} predictions")
    return list(zip(labels, preds, strict=False))


def check_label_shapes(labels: Any, preds: Any, wrap: bool = False, shape: bool = False) -> tuple[Any, Any]:
    """For metrics written by users: checks that labels and predictions belong together, and returns them.

    Parameters
    ----------
    wrap : bool
        Give lists, also of single arrays.
    shape : bool
        Shapes must be equal, not only lengths.

    Raises
    ------
    ArgumentError  they differ
    """
    found = (labels.shape, preds.shape) if shape else (len(labels), len(preds))
    if found[0] != found[1]:
        raise ArgumentError(f"Shape of labels {found[0]} does not match shape of predictions {found[1]}")
    if wrap:
        labels, preds = ([x] if isinstance(x, NDArray) else x for x in (labels, preds))
    return labels, preds


def alias(*names: str) -> Callable[[type[EvalMetric]], type[EvalMetric]]:
    """A decorator that makes a metric known under further names."""
    return lambda cls: _family.register(cls, *names)


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from a name, a function, an instance, a list of these, a config (`get_config`), or either as JSON.

    JSON is an object, `{"metric": "acc", "axis": 2}`, or a pair of name and arguments, `["acc", {"axis": 2}]`.

    Raises
    ------
    ArgumentError  no metric has the name, or the text is no such JSON
    """
    if isinstance(metric, str) and metric.startswith(("[", "{")):
        found, arguments = read_config(metric, "metric")
        return _family.create(found, **arguments)
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, (list, tuple)):
        return CompositeEvalMetric([create(m, *args, **kwargs) for m in metric])
    if isinstance(metric, Mapping):
        settings = dict(metric)
        if "metric" not in settings:
            raise ArgumentError(f"[metric] config: expected the key 'metric', got {settings!r:.200}")
        return _family.create(settings.pop("metric"), **settings)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    return _family.create(metric, *args, **kwargs)


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A metric from a function of NumPy arrays."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
