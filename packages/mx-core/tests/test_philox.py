# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mx_core import build_info, philox
from mx_core.errors import ArgumentError, DTypeError

U64 = st.integers(0, 2**64 - 1)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [  # Random123, kat_vectors, philox4x32 with 10 rounds
        ((0, 0), 0, "6627e8d5 e169c58d bc57ac4c 9b00dbd8"),
        ((2**64 - 1, 2**64 - 1), 2**64 - 1, "408f276d 41c83b0e a20bc7c6 6d5451fd"),
        (
            (0x85A308D3243F6A88, 0x0370734413198A2E),
            0x299F31D0A4093822,
            "d16cfe09 94fdcceb 5001e420 24126ea1",
        ),
    ],
)
def test_known_answers(counter: tuple[int, int], key: int, expected: str) -> None:
    offset, branch = counter
    (got,) = philox.words(key, offset, 1, branch)
    assert " ".join(f"{word:08x}" for word in got) == expected


@settings(deadline=None)
@given(U64, U64, st.integers(0, 40), st.integers(0, 40))
def test_a_stream_does_not_depend_on_how_it_is_cut(key: int, offset: int, a: int, b: int) -> None:
    whole = philox.words(key, offset, a + b)
    parts = [philox.words(key, offset, a), philox.words(key, offset + a, b)]
    np.testing.assert_array_equal(whole, np.concatenate(parts))


def test_chunks_join() -> None:
    n = (1 << 14) + 3
    np.testing.assert_array_equal(philox.words(7, 5, n)[-4:], philox.words(7, 5 + n - 4, 4))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("n", [0, 1, 2, 3, 5, 1000])
def test_shapes_types_and_prefixes(dtype: str, n: int) -> None:
    for draw in (philox.uniform, philox.normal):
        got = draw(3, 9, n, dtype)
        assert got.shape == (n,)
        assert got.dtype == dtype
        np.testing.assert_array_equal(got, draw(3, 9, n + 5, dtype)[:n])
        step = philox.blocks(n, dtype)
        longer = draw(3, 9, 4 * step + 8, dtype)
        per_block = 2 if dtype == "float64" else 4
        np.testing.assert_array_equal(draw(3, 9 + step, 8, dtype), longer[per_block * step :][:8])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_distributions(dtype: str) -> None:
    n = 200_000
    u = philox.uniform(11, 0, n, dtype).astype(np.float64)
    assert 0 <= u.min() and u.max() < 1
    counts = np.bincount((u * 64).astype(int), minlength=64)
    assert ((counts - n / 64) ** 2 / (n / 64)).sum() < 120  # chi2, 63 degrees: p < 1e-5
    z = philox.normal(11, 0, n, dtype).astype(np.float64)
    assert abs(z.mean()) < 5 / np.sqrt(n)
    assert abs(z.std() - 1) < 0.01
    assert abs((z**4).mean() - 3) < 0.15


@settings(deadline=None)
@given(U64, U64, st.integers(-(2**63), 2**63 - 1), st.integers(1, 2**64))
def test_integers_are_the_high_product(key: int, offset: int, low: int, span: int) -> None:
    high = min(low + span, 2**63)
    drawn = philox.integers(key, offset, 5, low, high)
    words = philox.words(key, offset, 3).reshape(-1, 2)[:5]
    for got, (w0, w1) in zip(drawn, words, strict=True):
        assert int(got) == low + ((int(w0) | int(w1) << 32) * (high - low) >> 64)


def test_bad_arguments() -> None:
    with pytest.raises(ArgumentError, match=r"\[5, 5\)"):
        philox.integers(0, 0, 1, 5, 5)
    with pytest.raises(DTypeError, match="int32"):
        philox.uniform(0, 0, 1, np.int32)


@pytest.mark.skipif(shutil.which("g++") is None, reason="needs a C++ compiler")
def test_the_header_gives_the_same_numbers(tmp_path: Path) -> None:
    program = tmp_path / "test_philox"
    source = Path(__file__).parent / "cpp" / "test_philox.cc"
    include = f"-I{build_info.get_include()}"
    subprocess.run(
        ["g++", "-std=c++17", "-O1", "-Wall", "-Werror", include, source, "-o", program],
        check=True,
        timeout=60,
    )
    subprocess.run([program], check=True, timeout=10)
    key, offset = 0x123456789ABCDEF0, 2**64 - 20  # the counter wraps
    printed = subprocess.run(
        [program, "dump", str(key), str(offset)],
        check=True,
        capture_output=True,
        text=True,
        timeout=10,
    ).stdout.split()
    rows = np.array(printed).reshape(64, 11)
    words = philox.words(key, offset, 64)
    np.testing.assert_array_equal(rows[:, :4].astype(np.uint32), words)

    def column(i: int) -> np.ndarray:
        return np.array([float.fromhex(text) for text in rows[:, i]])

    np.testing.assert_array_equal(column(4), philox.uniform(key, offset, 256)[::4])
    np.testing.assert_array_equal(column(5), philox.uniform(key, offset, 128, np.float64)[::2])
    integers = philox.integers(key, offset, 128, -(2**63), 12345)[::2]
    np.testing.assert_array_equal(rows[:, 6].astype(np.uint64), (integers + 2**62 + 2**62).astype(np.uint64))
    normal = philox.normal(key, offset, 256)
    np.testing.assert_allclose(column(7), normal[::4], rtol=0, atol=4e-6)
    np.testing.assert_allclose(column(8), normal[1::4], rtol=0, atol=4e-6)
    normal64 = philox.normal(key, offset, 128, np.float64)
    np.testing.assert_allclose(column(9), normal64[::2], rtol=0, atol=1e-14)
    np.testing.assert_allclose(column(10), normal64[1::2], rtol=0, atol=1e-14)
