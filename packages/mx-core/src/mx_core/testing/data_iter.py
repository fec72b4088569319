# SPDX-License-Identifier: Apache-2.0
"""Contract tests for data iterators."""

from __future__ import annotations

from typing import Any

import numpy as np

from mx_core.testing.expect import raises, within

TIMEOUT = 60.0


class DataIterContract:
    """Tests of an iterator: derive, name the class `Test…`, write `make_iter`."""

    #: same batches after every reset; False for iterators that shuffle anew
    repeatable = True

    def make_iter(self) -> Any:
        """A new iterator of at least two batches."""
        raise NotImplementedError

    def _values(self, batch: Any) -> list[Any]:
        return [value.asnumpy() for value in (*batch.data, *(batch.label or ()))]

    @within(TIMEOUT)
    def test_batches_have_the_shapes_it_provides(self) -> None:
        source = self.make_iter()
        batches = list(source)
        assert len(batches) >= 2
        for batch in batches:
            for arrays, described in (
                (batch.data, source.provide_data),
                (batch.label or [], source.provide_label),
            ):
                assert len(arrays) == len(described)
                for array, description in zip(arrays, described, strict=True):
                    assert tuple(array.shape) == tuple(description.shape), description.name

    def test_descriptions_have_name_and_batch_axis(self) -> None:
        source = self.make_iter()
        names = [d.name for d in (*source.provide_data, *source.provide_label)]
        assert names and len(set(names)) == len(names)
        assert all(d.shape[0] == source.batch_size for d in source.provide_data)

    @within(TIMEOUT)
    def test_the_end_is_a_stop_iteration_every_time(self) -> None:
        source = self.make_iter()
        for _ in source:
            pass
        for _ in range(2):
            with raises(StopIteration):
                source.next()

    @within(TIMEOUT)
    def test_reset_starts_over(self) -> None:
        source = self.make_iter()
        first = [self._values(batch) for batch in source]
        source.reset()
        second = [self._values(batch) for batch in source]
        assert len(first) == len(second)
        if self.repeatable:
            for a, b in zip(first, second, strict=True):
                for x, y in zip(a, b, strict=True):
                    np.testing.assert_array_equal(x, y)

    @within(TIMEOUT)
    def test_reset_in_the_middle_starts_over(self) -> None:
        source = self.make_iter()
        count = sum(1 for _ in source)
        source.reset()
        source.next()
        source.reset()
        assert sum(1 for _ in source) == count

    @within(TIMEOUT)
    def test_iter_next_and_getters_agree_with_next(self) -> None:
        by_next = [self._values(batch) for batch in self.make_iter()]
        source = self.make_iter()
        count = 0
        while source.iter_next():
            values = [v.asnumpy() for v in (*source.getdata(), *(source.getlabel() or ()))]
            assert 0 <= (source.getpad() or 0) < source.batch_size
            if self.repeatable:
                for x, y in zip(values, by_next[count], strict=True):
                    np.testing.assert_array_equal(x, y)
            count += 1
        assert count == len(by_next)
