# SPDX-License-Identifier: Apache-2.0
"""The namespace mx_io.io, and that the package's README is true."""

from __future__ import annotations

import contextlib
import io as text_io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mx_core import plugins
from mx_core.errors import FileFormatError
from mx_core.plugins import specs
from mx_core.plugins.registries import Entry, Provenance
from mx_io import codecs, image, io
from mx_ndarray import nd


def register(monkeypatch, kind: str, name: str, value: object) -> None:
    registry = plugins.registry(kind)
    entry = Entry(kind, name, value, Provenance("acme", "acme-data", "1.0"), "acme.py:1")
    for table in ("_entries", "_by_key"):
        monkeypatch.setattr(registry, table, dict(getattr(registry, table)))
    monkeypatch.setattr(registry, "_sorted", None)
    registry.commit(entry)


def test_a_registered_iterator_appears(monkeypatch):
    class CountingIter(io.DataIter):
        pass

    register(monkeypatch, "data_iters", "CountingIter", specs.FactorySpec("CountingIter", CountingIter))
    assert io.CountingIter is CountingIter
    assert {"CountingIter", "NDArrayIter", "ImageRecordIter", "DataBatch"} <= set(dir(io))
    monkeypatch.delitem(vars(io), "CountingIter")


def test_a_registered_augmenter_appears(monkeypatch):
    register(monkeypatch, "augmenters", "BlurAug", specs.FactorySpec("BlurAug", image.CastAug))
    assert image.BlurAug is image.CastAug
    monkeypatch.delitem(vars(image), "BlurAug")
    with pytest.raises(AttributeError, match="module 'mx_io.image' has no attribute 'BlurrAug'"):
        image.BlurrAug


def test_iterators_document_their_parameters():
    for name in ("ImageRecordIter", "CSVIter", "MNISTIter"):
        assert "batch_size : int" in getattr(io, name).__doc__


def test_an_unknown_iterator_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'mx_io.io' has no attribute 'ParquetIter'"):
        io.ParquetIter
    assert not hasattr(io, "_private")


def test_a_registered_codec_is_used_for_its_bytes(monkeypatch):
    def decode(data, color):
        raise RuntimeError("out of ink")

    spec = specs.CodecSpec(
        "ink", (".ink",), lambda head: head.startswith(b"INK"), decode, lambda image, quality: b"INK"
    )
    register(monkeypatch, "image_codecs", "ink", spec)
    codecs.codecs.cache_clear()
    try:
        import numpy as np

        assert codecs.encode(np.zeros((2, 2), np.uint8), "ink") == b"INK"
        with pytest.raises(
            FileFormatError, match=r"\[ink\] expected an intact image, got 4 bytes: out of ink"
        ):
            codecs.decode(b"INK!")
    finally:
        codecs.codecs.cache_clear()


def test_the_command_is_found():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", "from mx_core.cli import main; main()", "im2rec", "--help"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0 and "--pass-through" in done.stdout, done.stderr


def test_the_readme_is_true():
    text = (Path(__file__).parents[1] / "README.md").read_text()
    shown = text_io.StringIO()
    with contextlib.redirect_stdout(shown):
        for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
            exec(compile(block, "README.md", "exec"), {})
    assert shown.getvalue() == re.search(r"```text\n(.*?)```", text, re.DOTALL)[1]


def test_what_a_subclass_does_not_say_is_none():
    """As in MXNet."""
    source = io.DataIter()
    assert (source.getdata(), source.getlabel(), source.getindex(), source.getpad()) == (None,) * 4


def test_an_iterator_of_a_program_may_have_next_alone():
    class Ones(io.DataIter):
        def next(self):
            return io.DataBatch([nd.array([1])])

    ones = Ones(1)
    assert next(ones).data[0].asnumpy().tolist() == [1]
    for asked in (ones.iter_next, ones.getdata, ones.getlabel, ones.getindex, ones.getpad, ones.reset):
        assert asked() is None  # as in MXNet


def test_an_iterator_without_batches_is_told():
    class Empty(io.DataIter):
        pass

    with pytest.raises(NotImplementedError, match="Empty has neither next nor iter_next"):
        next(Empty())
