# SPDX-License-Identifier: Apache-2.0
"""EvalMetric: the base class, and metrics put together."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mx_core.errors import ArgumentError
from mx_ndarray import NDArray
from mx_train.registry import Named

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
        self._kwargs = kwargs
        self.reset()

    def update(self, labels: Arrays, preds: Arrays) -> None:
        """Adds a batch; waits for it."""
        raise NotImplementedError

    def update_dict(self, label: Mapping[str, NDArray], pred: Mapping[str, NDArray]) -> None:
        """Adds a batch given by names."""
        preds = [pred[n] for n in self.output_names] if self.output_names else list(pred.values())
        labels = [label[n] for n in self.label_names] if self.label_names else list(label.values())
        self.update(labels, preds)

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
        """Updates all."""
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
            self._add(*(result if isinstance(result, tuple) else (result, 1)))


def pairs(labels: Any, preds: Any, name: str, extra: bool = False) -> list[tuple[NDArray, NDArray]]:
    """Labels with predictions, one by one; ArgumentError when their numbers differ."""
    labels = [labels] if isinstance(labels, NDArray) else list(labels)
    preds = [preds] if isinstance(preds, NDArray) else list(preds)
    if len(labels) != len(preds) and not (extra and len(preds) > len(labels)):
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


def create(metric: Any, *args: Any, **kwargs: Any) -> EvalMetric:
    """A metric from a name, a function, an instance, a list of these, or a config."""
    if isinstance(metric, EvalMetric):
        return metric
    if isinstance(metric, (list, tuple)):
        return CompositeEvalMetric([create(m, *args, **kwargs) for m in metric])
    if isinstance(metric, Mapping):
        settings = dict(metric)
        return _family.create(settings.pop("metric"), **settings)
    if callable(metric):
        return CustomMetric(metric, *args, **kwargs)
    return _family.create(metric, *args, **kwargs)


def np(
    numpy_feval: Callable[[Any, Any], Any], name: str | None = None, allow_extra_outputs: bool = False
) -> CustomMetric:
    """A metric from a function of NumPy arrays."""
    return CustomMetric(numpy_feval, name, allow_extra_outputs)
