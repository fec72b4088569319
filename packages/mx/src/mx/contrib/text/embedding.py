# SPDX-License-Identifier: Apache-2.0
"""Word vectors from local files; nothing is downloaded."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from mx.base import data_dir
from mx.contrib.text import files
from mx.contrib.text.vocab import Vocabulary
from mx.registry import get_create_func, get_register_func
from mx_core.errors import ArgumentError, FileFormatError, MissingFileError
from mx_core.files import naming
from mx_ndarray import NDArray, nd
from mx_train.vocabulary import Asserted

Vectors = np.ndarray[Any, np.dtype[np.float32]]


class _TokenEmbedding(Vocabulary):
    """A vocabulary whose tokens have vectors: the base of all word vectors, also of those that `register` gets.

    Threads: any may read; vectors are changed by one at a time.

    Parameters
    ----------
    **kwargs : as of `Vocabulary`
    """

    #: names of files that are known
    pretrained_file_names: ClassVar[Sequence[str]] = ()

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._vec_len = 0
        self._idx_to_vec: NDArray | None = None

    @property
    def vec_len(self) -> int:
        """Numbers in a vector."""
        return self._vec_len

    @property
    def idx_to_vec(self) -> NDArray | None:
        """The vectors (tokens, vec_len) of float32 by index, as `Embedding` takes them; None before there are any."""
        return self._idx_to_vec

    def _vectors(self, what: str) -> NDArray:
        if self._idx_to_vec is None:
            raise ArgumentError(f"[{type(self).__name__}.{what}] there are no vectors yet")
        return self._idx_to_vec

    # ---- reading ----

    def _read(
        self,
        path: str | os.PathLike[str],
        elem_delim: str,
        init_unknown_vec: Callable[..., NDArray],
        encoding: str,
        vocabulary: Vocabulary | None,
    ) -> None:
        """Takes the tokens and vectors of a file, of the tokens of a vocabulary alone if there is one.

        Raises
        ------
        MissingFileError  there is no such file
        FileFormatError   a line has no vector, a number that is none, or another length
        """
        if not os.path.isfile(os.path.expanduser(path)):
            raise MissingFileError(
                f"[{type(self).__name__}] {os.fspath(path)} is no file; nothing is downloaded: put the file there"
            )
        tokens: list[Any] = [self._unknown_token, *(self._reserved_tokens or ())]
        rows: list[Vectors | None] = [None] * len(tokens)
        known = set(tokens[1:])
        for number, token, vector in _lines(os.path.expanduser(path), elem_delim, encoding):
            if token == self._unknown_token:
                if rows[0] is None:
                    rows[0] = vector
                else:
                    _warn_of_second(path, number, token)
            elif token in known:
                _warn_of_second(path, number, token)
            else:
                known.add(token)
                tokens.append(token)
                rows.append(vector)
        length = next((len(row) for row in rows if row is not None), 0)
        if not length:
            raise FileFormatError(f"[{type(self).__name__}] {os.fspath(path)}: expected vectors, got none")
        self._idx_to_token = tokens
        self._token_to_idx = {token: index for index, token in enumerate(tokens)}
        self._vec_len = length
        unknown = init_unknown_vec(shape=length).asnumpy()
        made = np.stack([unknown if row is None else row for row in rows])
        self._idx_to_vec = nd.array(made, dtype=np.float32)
        if vocabulary is not None:
            self._narrow(vocabulary)

    def _narrow(self, vocabulary: Vocabulary) -> None:
        """Keeps the tokens of a vocabulary."""
        vectors = self.get_vecs_by_tokens(vocabulary.idx_to_token)
        self._index(vocabulary)
        self._idx_to_vec = vectors

    def _index(self, vocabulary: Vocabulary) -> None:
        self._unknown_token = vocabulary.unknown_token
        self._reserved_tokens = (
            None if vocabulary.reserved_tokens is None else list(vocabulary.reserved_tokens)
        )
        self._idx_to_token = list(vocabulary.idx_to_token)
        self._token_to_idx = dict(vocabulary.token_to_idx)

    def _known_file(self, root: str | os.PathLike[str], name: str) -> Path:
        """Where a file of this kind of word vectors is to be."""
        kind = type(self).__name__.lower()
        path = Path(root).expanduser() / kind / name
        if name not in self.pretrained_file_names and not path.is_file():
            raise ArgumentError(
                f"[{type(self).__name__}] pretrained_file_name: {name!r} is no file in {path.parent} and none that "
                f"is known: {', '.join(self.pretrained_file_names[:12])}, …"
            )
        return path

    # ---- vectors ----

    def get_vecs_by_tokens(self, tokens: str | Sequence[str], lower_case_backup: bool = False) -> NDArray:
        """The vectors of tokens; that of the unknown token for tokens that are not known.

        Parameters
        ----------
        tokens : str or sequence of str
        lower_case_backup : bool
            Whether a token that is not known is looked for in lower case.

        Returns
        -------
        NDArray
            Of shape (vec_len,) for one token, (tokens, vec_len) for several; float32.
        """
        vectors = self._vectors("get_vecs_by_tokens")
        several = [tokens] if isinstance(tokens, str) else list(tokens)
        if lower_case_backup:
            several = [token if token in self._token_to_idx else token.lower() for token in several]
        found: NDArray = nd.take(vectors, nd.array(self.to_indices(several), dtype=np.int64))
        return found[0] if isinstance(tokens, str) else found

    def update_token_vectors(self, tokens: str | Sequence[str], new_vectors: NDArray) -> None:
        """Sets the vectors of tokens.

        Parameters
        ----------
        tokens : str or sequence of str
        new_vectors : NDArray
            Of shape (tokens, vec_len), or (vec_len,) for one token.

        Raises
        ------
        ArgumentError  a token is not known, or the shape is another one
        """
        vectors = self._vectors("update_token_vectors")
        several = [tokens] if isinstance(tokens, str) else list(tokens)
        shape = (len(several), self._vec_len)
        fits = isinstance(new_vectors, NDArray) and (
            new_vectors.shape == shape or len(several) == 1 and new_vectors.shape == shape[1:]
        )
        if not fits:
            got = new_vectors.shape if isinstance(new_vectors, NDArray) else repr(new_vectors)
            raise Asserted(
                f"[update_token_vectors] new_vectors: expected an NDArray of shape {shape}, got {got}"
            )
        for token in several:
            if token not in self._token_to_idx:
                raise ArgumentError(
                    f"[update_token_vectors] tokens: {token!r} is not known; the vector of unknown tokens is that of "
                    f"{self._unknown_token!r}"
                )
        vectors[nd.array(self.to_indices(several), dtype=np.int64)] = new_vectors.reshape(shape)


class _BadLine(FileFormatError, AssertionError):
    """A line that MXNet asserts to be another one: programs catch an AssertionError."""


def _lines(path: str, elem_delim: str, encoding: str) -> Iterator[tuple[int, str, Vectors]]:
    """Number of a line, token and vector; lines with one number are taken for heads of the file."""
    length = None
    with naming(path), open(path, encoding=encoding) as file:
        for number, line in enumerate(file, 1):
            token, *elements = line.rstrip().split(elem_delim)
            if not elements:
                raise _BadLine(
                    f"[embedding] {path}, line {number}: expected a token and numbers with {elem_delim!r} between, got "
                    f"{line.rstrip()[:60]!r}"
                )
            try:
                vector = np.array([float(element) for element in elements], np.float32)
            except ValueError as error:
                raise FileFormatError(
                    f"[embedding] {path}, line {number}, token {token!r}: {error}"
                ) from None
            if len(vector) == 1:
                warnings.warn(
                    f"[embedding] {path}, line {number}: {token!r} with one number is taken for the head of the "
                    "file and not read",
                    stacklevel=5,
                )
                continue
            if length is not None and len(vector) != length:
                raise _BadLine(
                    f"[embedding] {path}, line {number}: the vector of {token!r} has {len(vector)} numbers, those "
                    f"before have {length}"
                )
            length = len(vector)
            yield number, token, vector


def _warn_of_second(path: str | os.PathLike[str], number: int, token: str) -> None:
    warnings.warn(
        f"[embedding] {os.fspath(path)}, line {number}: {token!r} has a vector already; this one is passed over",
        stacklevel=4,
    )


#: of a class: makes it known to `create`
register = get_register_func(_TokenEmbedding, "token embedding")
_create = get_create_func(_TokenEmbedding, "token embedding")


def create(embedding_name: str, **kwargs: Any) -> _TokenEmbedding:
    """Word vectors by the name of their class, such as `"glove"`, and its arguments.

    Raises
    ------
    ArgumentError  no such class is registered
    """
    made: _TokenEmbedding = _create(embedding_name, **kwargs)
    return made


def get_pretrained_file_names(embedding_name: str | None = None) -> Any:
    """The names of files of word vectors that MXNet's classes know.

    Parameters
    ----------
    embedding_name : {"glove", "fasttext"}, optional

    Returns
    -------
    list of str, or without a name a dict from class to such lists

    Raises
    ------
    ArgumentError  another name; it is a KeyError, too
    """
    known = {"glove": list(files.GLOVE), "fasttext": list(files.FASTTEXT)}
    if embedding_name is None:
        return known
    if embedding_name.lower() not in known:
        raise _UnknownEmbedding(
            f"[get_pretrained_file_names] embedding_name: expected one of {', '.join(known)}, got {embedding_name!r}"
        )
    return known[embedding_name.lower()]


class _UnknownEmbedding(ArgumentError, KeyError):
    """No class of word vectors has this name."""

    __str__ = ArgumentError.__str__


@register
class GloVe(_TokenEmbedding):
    """Word vectors in the files of GloVe.

    Threads: any may read.

    Source: Pennington, Socher and Manning, GloVe: Global Vectors for Word Representation, EMNLP 2014.

    Parameters
    ----------
    pretrained_file_name : str
        A file in the folder `glove` of `embedding_root`, such as `glove.6B.50d.txt`.
    embedding_root : path, optional
        By default `embeddings` in MXNET_HOME or `~/.mxnet`.
    init_unknown_vec : callable(shape)
        Makes the vector of the unknown token if the file has none.
    vocabulary : Vocabulary, optional
        Whose tokens alone are kept, with its indices.
    **kwargs : as of `Vocabulary`

    Raises
    ------
    MissingFileError  the file is not there; nothing is downloaded
    ArgumentError     no such file is known
    FileFormatError   it is damaged
    """

    pretrained_file_names: ClassVar[Sequence[str]] = files.GLOVE

    def __init__(
        self,
        pretrained_file_name: str = "glove.840B.300d.txt",
        embedding_root: str | os.PathLike[str] | None = None,
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        root = Path(data_dir(), "embeddings") if embedding_root is None else embedding_root
        path = self._known_file(root, pretrained_file_name)
        self._read(path, " ", init_unknown_vec, "utf8", vocabulary)


@register
class FastText(GloVe):
    """Word vectors in the files of fastText.

    Threads: any may read.

    Source: Bojanowski, Grave, Joulin and Mikolov, Enriching Word Vectors with Subword Information, TACL 2017.

    Parameters
    ----------
    pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs : as of `GloVe`
        The folder is `fasttext`.
    """

    pretrained_file_names = files.FASTTEXT

    def __init__(
        self,
        pretrained_file_name: str = "wiki.simple.vec",
        embedding_root: str | os.PathLike[str] | None = None,
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(pretrained_file_name, embedding_root, init_unknown_vec, vocabulary, **kwargs)


class CustomEmbedding(_TokenEmbedding):
    """Word vectors in a text file: a token and its numbers on each line.

    Threads: any may read.

    Parameters
    ----------
    pretrained_file_path : path
    elem_delim : str
        Between the token and the numbers, and between these.
    encoding : str
        Of the file.
    init_unknown_vec, vocabulary, **kwargs : as of `GloVe`

    Raises
    ------
    MissingFileError  there is no such file
    FileFormatError   a line has no vector, a number that is none, or another length
    """

    def __init__(
        self,
        pretrained_file_path: str | os.PathLike[str],
        elem_delim: str = " ",
        encoding: str = "utf8",
        init_unknown_vec: Callable[..., NDArray] = nd.zeros,
        vocabulary: Vocabulary | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self._read(pretrained_file_path, elem_delim, init_unknown_vec, encoding, vocabulary)


class CompositeEmbedding(_TokenEmbedding):
    """The vectors of several kinds one after another, for the tokens of a vocabulary.

    Threads: any may read.

    Parameters
    ----------
    vocabulary : Vocabulary
    token_embeddings : word vectors, or sequence of them

    Raises
    ------
    ArgumentError  the arguments are something else
    """

    def __init__(
        self, vocabulary: Vocabulary, token_embeddings: _TokenEmbedding | Sequence[_TokenEmbedding]
    ) -> None:
        if not isinstance(vocabulary, Vocabulary):
            raise Asserted(f"[CompositeEmbedding] vocabulary: expected a Vocabulary, got {vocabulary!r}")
        parts: list[_TokenEmbedding] = (
            [token_embeddings] if isinstance(token_embeddings, _TokenEmbedding) else list(token_embeddings)
        )
        for part in parts:
            if not isinstance(part, _TokenEmbedding):
                raise Asserted(f"[CompositeEmbedding] token_embeddings: expected word vectors, got {part!r}")
        super().__init__()
        self._index(vocabulary)
        self._vec_len = sum(part.vec_len for part in parts)
        self._idx_to_vec = nd.concat(*(part.get_vecs_by_tokens(self._idx_to_token) for part in parts), dim=1)
