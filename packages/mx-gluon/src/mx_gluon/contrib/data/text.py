# SPDX-License-Identifier: Apache-2.0
"""Texts for language models, from files that somebody has put where MXNet looks for them."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections import Counter
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mx_core.errors import FileFormatError, MissingFileError
from mx_core.files import naming
from mx_gluon.data.dataset import Dataset
from mx_gluon.errors import RefusedError
from mx_gluon.folders import data_folder
from mx_ndarray import nd
from mx_train.vocabulary import Vocabulary, count_tokens_from_str

__all__ = ["WikiText2", "WikiText103"]

_END = "<eos>"
_SEGMENTS = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}
#: bytes that a file in an archive may say to have; WikiText-103 has 540 million
_LARGEST = 1 << 32


class _WikiText(Dataset):
    """Words as numbers, in rows of equal length; labels are the words that follow."""

    #: the folder below `datasets`, where MXNet puts the files, and the archive that they come in
    folder: ClassVar[str]
    archive: ClassVar[str]

    def __init__(
        self,
        root: str | os.PathLike[str] | None = None,
        segment: str = "train",
        vocab: Vocabulary | None = None,
        seq_len: int = 35,
    ) -> None:
        what = f"[{type(self).__name__}]"
        if segment not in _SEGMENTS:
            raise RefusedError(f"{what} segment: expected one of {', '.join(_SEGMENTS)}, got {segment!r}")
        if seq_len < 1:
            raise RefusedError(f"{what} seq_len: expected 1 or more, got {seq_len}")
        self._root = data_folder("datasets", self.folder) if root is None else Path(root).expanduser()
        content = self._content(_SEGMENTS[segment])
        self._counter = count_tokens_from_str(content)
        self._vocab = vocab or Vocabulary(self._counter, reserved_tokens=[_END])
        words = [word for line in map(str.split, content.splitlines()) if line for word in (*line, _END)]
        indices = np.array(self._vocab.to_indices(words), np.int32)
        count = max(len(indices) - 1, 0) // seq_len
        data, label = indices[: count * seq_len], indices[1 : 1 + count * seq_len]
        self._data, self._label = (nd.array(x.reshape(count, seq_len), dtype=x.dtype) for x in (data, label))

    def __getitem__(self, idx: Any) -> Any:
        return self._data[idx], self._label[idx]

    def __len__(self) -> int:
        return len(self._label)

    @property
    def vocabulary(self) -> Vocabulary:
        """The words with their numbers, for other segments, for instance."""
        return self._vocab

    @property
    def frequencies(self) -> Counter[str]:
        """How often each word comes in this segment."""
        return self._counter

    def _content(self, name: str) -> str:
        """A file of the folder or of the archive, with the ends of lines as Python reads them."""
        path, archive = self._root / name, self._root / self.archive
        if path.exists():
            with naming(path):
                content = path.read_bytes()
        elif archive.exists():
            path, content = archive, self._unpacked(archive, name)
        else:
            raise MissingFileError(
                f"[{type(self).__name__}] {self._root} has not {name} nor {self.archive}: nothing here opens a network "
                "connection; put one of them there, or give its folder as root"
            )
        try:
            return content.decode().replace("\r\n", "\n").replace("\r", "\n")
        except UnicodeDecodeError as error:
            raise FileFormatError(
                f"[{type(self).__name__}] {path}: expected text in UTF-8: {error}"
            ) from error

    def _unpacked(self, archive: Path, name: str) -> bytes:
        with naming(archive):
            try:
                with zipfile.ZipFile(archive) as file:
                    for member in file.infolist():
                        if os.path.basename(member.filename) == name and member.file_size <= _LARGEST:
                            return file.read(member)
            except (zipfile.BadZipFile, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
                raise FileFormatError(f"[{type(self).__name__}] {archive}: {error}") from error
        raise FileFormatError(f"[{type(self).__name__}] {archive}: it has no file {name}")


class WikiText2(_WikiText):
    """Two million words of Wikipedia as numbers: samples are rows of int32, and rows of the words one later.

    Lines end with the word `<eos>`, and follow each other without regard to the rows. Words that do not fill a row are
    left out.

    Threads: any.

    Source: Merity, Xiong, Bradbury and Socher, Pointer Sentinel Mixture Models, 2016.

    Parameters
    ----------
    root : path, optional
        The folder with `wiki.train.tokens`, `wiki.valid.tokens` and `wiki.test.tokens`, or with `wikitext-2-v1.zip`; by
        default `datasets/wikitext-2` in MXNET_HOME or `~/.mxnet`. Checksums are not compared, so that any text will do.
    segment : {"train", "validation", "test"}
    vocab : Vocabulary, optional
        The numbers of words; by default a new one of all words in the segment.
    seq_len : int
        Words in a row.

    Raises
    ------
    RefusedError      another segment, or a length below 1
    MissingFileError  a file is not there; nothing is downloaded
    FileFormatError   one is damaged

    Examples
    --------
    >>> train = WikiText2(seq_len=20)
    >>> test = WikiText2(segment="test", vocab=train.vocabulary, seq_len=20)
    """

    folder = "wikitext-2"
    archive = "wikitext-2-v1.zip"


class WikiText103(_WikiText):
    """A hundred million words of Wikipedia, otherwise as `WikiText2`.

    Threads: any.

    Parameters
    ----------
    root, segment, vocab, seq_len : as of `WikiText2`
        The folder is `datasets/wikitext-103`, the archive `wikitext-103-v1.zip`.
    """

    folder = "wikitext-103"
    archive = "wikitext-103-v1.zip"
