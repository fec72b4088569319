# SPDX-License-Identifier: Apache-2.0
"""Helpers: batches over contexts, clipping, files."""

from __future__ import annotations

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import cpu
from mx_core.errors import ArgumentError, MissingFileError
from mx_gluon import nn, utils
from mx_ndarray import nd


class TestSplitting:
    @settings(deadline=None)
    @given(st.integers(1, 30), st.integers(1, 8), st.integers(0, 2))
    def test_slices_are_the_batch(self, size: int, count: int, axis: int) -> None:
        shape = [2, 3, 2]
        shape[axis] = size
        batch = nd.arange(math.prod(shape)).reshape(shape)
        if size < count:
            with pytest.raises(
                ArgumentError, match=f"{size} examples along axis {axis} .* do not make {count} slices"
            ):
                utils.split_data(batch, count, axis, even_split=False)
            return
        slices = utils.split_data(batch, count, axis, even_split=False)
        sizes = [part.shape[axis] for part in slices]
        assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)
        np.testing.assert_array_equal(np.concatenate([s.asnumpy() for s in slices], axis), batch.asnumpy())

    def test_uneven(self) -> None:
        with pytest.raises(
            ValueError, match=r"7 examples along axis 0 of shape \(7, 1\) do not make 2 equal slices"
        ):
            utils.split_data(nd.ones((7, 1)), 2)

    def test_loads(self) -> None:
        parts = utils.split_and_load(np.arange(6).reshape(3, 2), [cpu(0), cpu(1)], batch_axis=1)
        assert [part.context for part in parts] == [cpu(0), cpu(1)]
        assert parts[1].asnumpy().ravel().tolist() == [1, 3, 5]
        (whole,) = utils.split_and_load([[1, 2]], [cpu(1)])
        assert (whole.context, whole.shape) == (cpu(1), (1, 2))


class TestClipping:
    @settings(deadline=None)
    @given(st.lists(st.floats(-100, 100, width=32), min_size=1, max_size=12), st.floats(0.1, 200))
    def test_norm_is_bounded(self, values: list[float], bound: float) -> None:
        arrays = [nd.array(values[::2]), nd.array([values[1::2] or [0.0]], ctx=cpu(1))]
        before = [array.asnumpy() for array in arrays]
        norm = utils.clip_global_norm(arrays, bound)
        expected = math.sqrt(sum(float((each.astype("float64") ** 2).sum()) for each in before))
        assert norm == pytest.approx(expected, rel=1e-4, abs=1e-5)
        scale = min(1.0, bound / (expected + 1e-8))
        for array, old in zip(arrays, before, strict=True):
            np.testing.assert_allclose(array.asnumpy(), old * scale, rtol=1e-4, atol=1e-5)

    def test_without_a_look_at_the_norm(self) -> None:
        array = nd.array([3, 4])
        norm = utils.clip_global_norm([array], 1.0, check_isfinite=False)
        assert isinstance(norm, nd.NDArray) and norm.shape == (1,) and norm.asscalar() == 5
        np.testing.assert_allclose(array.asnumpy(), [0.6, 0.8], rtol=1e-6)

    @pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
    def test_squares_of_16_bits_do_not_overflow(self, dtype: str) -> None:
        arrays = [nd.array([300, 0], dtype=dtype), nd.array([0, 400], dtype=dtype)]
        assert utils.clip_global_norm(arrays, 5.0) == 500
        assert [each.astype("float32").asnumpy().tolist() for each in arrays] == [[3, 0], [0, 4]]

    def test_not_finite(self) -> None:
        with pytest.warns(UserWarning, match="the norm is nan or inf"):
            assert math.isnan(float(utils.clip_global_norm([nd.array([math.nan])], 1.0)))  # type: ignore[arg-type]
        with pytest.raises(AssertionError, match="expected at least one, got none"):
            utils.clip_global_norm([], 1.0)


class TestFiles:
    def test_sha1(self, tmp_path: Path) -> None:
        path = tmp_path / "a"
        path.write_bytes(b"abc")
        digest = hashlib.sha1(b"abc").hexdigest()
        assert utils.check_sha1(path, digest)
        assert not utils.check_sha1(path, digest[::-1])

    def test_replace(self, tmp_path: Path) -> None:
        (tmp_path / "a").write_text("new")
        (tmp_path / "b").write_text("old")
        utils.replace_file(tmp_path / "a", tmp_path / "b")
        assert (tmp_path / "b").read_text() == "new" and not (tmp_path / "a").exists()

    def test_local_files_stand_for_downloads(self, tmp_path: Path) -> None:
        url = "https://example.org/sets/data.bin"
        with pytest.raises(MissingFileError, match=f"fetch {url} and put it at {tmp_path}/data.bin"):
            utils.download(url, str(tmp_path))
        (tmp_path / "data.bin").write_bytes(b"abc")
        assert utils.download(url, str(tmp_path)) == str(tmp_path / "data.bin")
        digest = hashlib.sha1(b"abc").hexdigest()
        assert utils.download(url, str(tmp_path / "data.bin"), sha1_hash=digest) == str(tmp_path / "data.bin")
        with pytest.raises(ArgumentError, match="data.bin: expected SHA-1 0000"):
            utils.download(url, str(tmp_path), sha1_hash="0000")
        with pytest.raises(AssertionError, match="'https://example.org/' names no file"):
            utils.download("https://example.org/", str(tmp_path))


def test_names_of_mxnets_file() -> None:
    assert (
        utils.shape_is_known((2, 3)) and not utils.shape_is_known((2, 0)) and not utils.shape_is_known(None)
    )
    layer = nn.Dense(2)
    assert isinstance(layer.register_forward_hook(lambda *given: None), utils.HookHandle)
