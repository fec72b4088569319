# SPDX-License-Identifier: Apache-2.0
"""Contract tests for data iterators."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.testing.expect import check_attributes, raises, within

TIMEOUT = 60.0


class DataIterContract:
    """Tests of an iterator: derive, name the class `Test…`, write `make_iter`."""

    #: same batches after every reset; False for iterators that shuffle anew
    repeatable = True
    #: attributes that every iterator has
    required = (
        "batch_size", "provide_data", "provide_label", "reset", "next", "iter_next", "getdata", "getlabel", "getpad",
    )  # fmt: skip

    def make_iter(self) -> Any:
        """A new iterator of at least two batches."""
        raise NotImplementedError

    def _made(self) -> Any:
        source = self.make_iter()
        check_attributes(source, self.required)
        return source

    def _values(self, batch: Any) -> list[Any]:
        _check_batch(batch)
        return [value.asnumpy() for value in (*batch.data, *(batch.label or ()))]

    @within(TIMEOUT)
    def test_batches_have_the_shapes_it_provides(self) -> None:
        source = self._made()
        batches = list(source)
        assert len(batches) >= 2, f"the contract needs two batches or more, make_iter gives {len(batches)}"
        for batch in batches:
            _check_batch(batch)
            for what, arrays in (("data", batch.data), ("label", batch.label or [])):
                described = _descriptions(source, f"provide_{what}")
                assert len(arrays) == len(described), (
                    f"a batch has {len(arrays)} arrays in {what}, provide_{what} describes {len(described)}"
                )
                for array, description in zip(arrays, described, strict=True):
                    assert tuple(array.shape) == tuple(description.shape), (
                        f"{description.name}: provide_{what} says {tuple(description.shape)}, "
                        f"a batch has {tuple(array.shape)}"
                    )
                    dtype = getattr(description, "dtype", None)
                    assert dtype is None or np.dtype(dtype) == np.dtype(array.dtype), (
                        f"{description.name}: provide_{what} says {np.dtype(dtype).name}, "
                        f"a batch has {np.dtype(array.dtype).name}"
                    )
            _check_pad(getattr(batch, "pad", None), source, "pad of a batch")

    @within(TIMEOUT)
    def test_batches_stay_as_they_are_when_the_next_one_is_made(self) -> None:
        batches, values = [], []
        for batch in self._made():
            batches.append(batch)
            values.append([value.copy() for value in self._values(batch)])
        for number, (batch, kept) in enumerate(zip(batches, values, strict=True)):
            _check_equal(
                self._values(batch),
                kept,
                f"batch {number} is written over by a later one: make arrays for each",
            )

    def test_descriptions_have_name_and_batch_axis(self) -> None:
        source = self._made()
        data, labels = (_descriptions(source, name) for name in ("provide_data", "provide_label"))
        names = [d.name for d in (*data, *labels)]
        assert names, "provide_data and provide_label describe nothing"
        assert len(set(names)) == len(names), f"expected a name for each array, got {', '.join(names)}"
        for d in data:
            assert d.shape[0] == source.batch_size, (
                f"{d.name}: expected the batch size {source.batch_size} as first extent, got {tuple(d.shape)}"
            )

    @within(TIMEOUT)
    def test_the_end_is_a_stop_iteration_every_time(self) -> None:
        source = self._made()
        for _ in source:
            pass
        for _ in range(2):
            with raises(StopIteration):
                source.next()

    @within(TIMEOUT)
    def test_reset_starts_over(self) -> None:
        source = self._made()
        first = [self._values(batch) for batch in source]
        source.reset()
        second = [self._values(batch) for batch in source]
        assert len(first) == len(second), f"{len(first)} batches, after reset {len(second)}"
        if self.repeatable:
            for number, (a, b) in enumerate(zip(first, second, strict=True)):
                _check_equal(a, b, f"batch {number} differs after reset")

    @within(TIMEOUT)
    def test_reset_in_the_middle_starts_over(self) -> None:
        source = self._made()
        count = sum(1 for _ in source)
        assert count, "a new iterator gave no batch"
        source.reset()
        try:
            source.next()
        except StopIteration:
            raise AssertionError("after reset() the iterator gave no batch") from None
        source.reset()
        again = sum(1 for _ in source)
        assert again == count, f"{count} batches, after a reset in the middle {again}"

    @within(TIMEOUT)
    def test_iter_next_and_getters_agree_with_next(self) -> None:
        by_next = [self._values(batch) for batch in self._made()]
        source = self._made()
        try:
            more = source.iter_next()
        except NotImplementedError:
            more = None
        if more is None:  # it gives next alone
            return
        count = 0
        while more:
            assert count < len(by_next), f"next gives {len(by_next)} batches, iter_next more"
            values = [v.asnumpy() for v in (*_arrays(source.getdata()), *_arrays(source.getlabel()))]
            _check_pad(source.getpad(), source, "getpad")
            if self.repeatable:
                _check_equal(
                    values, by_next[count], f"batch {count} of the getters differs from that of next"
                )
            count += 1
            more = source.iter_next()
        assert count == len(by_next), f"next gives {len(by_next)} batches, iter_next {count}"


def _arrays(found: Any) -> list[Any]:
    """What a getter gave: None, several arrays, or one by itself."""
    if found is None or hasattr(found, "asnumpy"):
        return [] if found is None else [found]
    return list(found)


def _check_pad(pad: Any, source: Any, what: str) -> None:
    assert 0 <= (pad or 0) < source.batch_size, (
        f"{what}: expected 0 or more and less than the batch size {source.batch_size}, got {pad}"
    )


def _check_batch(batch: Any) -> None:
    expected = "expected a DataBatch with lists of arrays: mx.io.DataBatch(data=[x], label=[y])"
    assert hasattr(batch, "data") and hasattr(batch, "label"), f"next gives {_kind(batch)}; {expected}"
    for what in ("data", "label"):
        arrays = getattr(batch, what)
        if arrays is None and what == "label":
            continue
        assert isinstance(arrays, (list, tuple)), (
            f"next gives a batch whose {what} is {_kind(arrays)}; {expected}"
        )
        for value in arrays:
            assert hasattr(value, "asnumpy"), (
                f"next gives a batch with {_kind(value)} in {what}; expected NDArrays: mx.nd.array(values)"
            )


def _descriptions(source: Any, name: str) -> list[Any]:
    found = getattr(source, name)
    expected = 'expected a list of descriptions: [mx.io.DataDesc("data", (batch_size, 3))]'
    assert isinstance(found, (list, tuple)), f"{name} is {_kind(found)}; {expected}"
    for each in found:
        assert hasattr(each, "name") and hasattr(each, "shape"), f"{name} has {each!r} in it; {expected}"
    return list(found)


def _check_equal(found: list[Any], wanted: list[Any], message: str) -> None:
    assert len(found) == len(wanted), f"{message}: {len(found)} arrays, expected {len(wanted)}"
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(x, y, message)


def _kind(value: object) -> str:
    of = f" of {len(value)}" if isinstance(value, (list, tuple)) else ""
    return f"a {type(value).__name__}{of}"
