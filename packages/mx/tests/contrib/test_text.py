# SPDX-License-Identifier: Apache-2.0
"""Vocabularies and word vectors give what MXNet 1.9.1 gave for the same calls."""

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mx
from mx.contrib import text
from mx_core.errors import ArgumentError, FileFormatError, MissingFileError

COUNTER = Counter(["a", "b", "b", "c", "c", "c", "some_word$"])
LINES = "a 0.1 0.2 0.3\nb 0.4 0.5 0.6\n"


def values(array: Any) -> Any:
    return np.round(array.asnumpy().astype(float), 3).tolist()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "vectors.txt"
    file.write_text(LINES)
    return file


# ---- counting ----


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((" Life is great ! \n life is good . \n",), {"is": 2, "Life": 1, "great": 1, "!": 1, "life": 1, "good": 1, ".": 1}),
        (("a--b//c", "--", "//"), {"a": 1, "b": 1, "c": 1}), (("a.b+c|d", ".", "|"), {}),
        (("aXbxC", "X", "Y", True), {"a": 1, "bxc": 1}), (("a(b)c", "(b)", "Y"), {"a(": 1, "b": 1, ")c": 1}),
    ],
)  # fmt: skip
def test_counts(arguments: tuple[Any, ...], expected: dict[str, int]) -> None:
    assert text.utils.count_tokens_from_str(*arguments) == expected


def test_counts_are_added_to_a_counter() -> None:
    counter = Counter(a=1)
    assert text.utils.count_tokens_from_str("A b", to_lower=True, counter_to_update=counter) is counter
    assert counter == {"a": 2, "b": 1}


# ---- vocabularies ----


@pytest.mark.parametrize(
    ("settings", "tokens"),
    [
        ({}, ["<unk>", "c", "b", "a", "some_word$"]), ({"most_freq_count": 2}, ["<unk>", "c", "b"]),
        ({"min_freq": 2}, ["<unk>", "c", "b"]), ({"most_freq_count": 0}, ["<unk>"]),
        ({"reserved_tokens": ["<pad>", "b"]}, ["<unk>", "<pad>", "b", "c", "a", "some_word$"]),
        ({"unknown_token": "b"}, ["b", "c", "a", "some_word$"]), ({"most_freq_count": -1}, ["<unk>", "c", "b", "a", "some_word$"]),
        ({"unknown_token": None}, [None, "c", "b", "a", "some_word$"]),
    ],
)  # fmt: skip
def test_tokens_of_a_vocabulary(settings: dict[str, Any], tokens: list[Any]) -> None:
    vocabulary = text.vocab.Vocabulary(COUNTER, **settings)
    assert vocabulary.idx_to_token == tokens
    assert vocabulary.token_to_idx == {token: i for i, token in enumerate(tokens)}
    assert len(vocabulary) == len(tokens)
    assert vocabulary.reserved_tokens == settings.get("reserved_tokens")
    assert vocabulary.unknown_token == tokens[0]


def test_indices_and_tokens() -> None:
    vocabulary = text.vocab.Vocabulary(COUNTER)
    assert vocabulary.to_indices("c") == 1
    assert vocabulary.to_indices(["c", "zz", "b"]) == [1, 0, 2]
    assert vocabulary.to_tokens(1) == vocabulary.to_tokens(np.int32(1)) == "c"
    assert vocabulary.to_tokens([1, 2]) == ["c", "b"]
    assert vocabulary.to_tokens([]) == []
    assert len(text.vocab.Vocabulary()) == 1


@pytest.mark.parametrize("index", [99, -1, 1.5, "1"])
def test_wrong_indices_are_refused(index: Any) -> None:
    vocabulary = text.vocab.Vocabulary(COUNTER)
    for given in (index, [index]):
        with pytest.raises(ArgumentError, match="expected integers from 0 to 4"):
            vocabulary.to_tokens(given)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"min_freq": 0}, "min_freq: expected at least 1, got 0"), ({"reserved_tokens": ["p", "p"]}, "got 'p'"),
        ({"reserved_tokens": ["<unk>"]}, "not the unknown one, got '<unk>'"), ({"counter": ["a"]}, "collections.Counter"),
    ],
)  # fmt: skip
def test_wrong_settings_of_a_vocabulary(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ArgumentError, match=said):
        text.vocab.Vocabulary(**settings)


# ---- word vectors ----


def test_vectors_of_a_file(path: Path) -> None:
    vectors = text.embedding.CustomEmbedding(path)
    assert vectors.idx_to_token == ["<unk>", "a", "b"]
    assert (len(vectors), vectors.vec_len) == (3, 3)
    assert values(vectors.idx_to_vec) == [[0, 0, 0], [0.1, 0.2, 0.3], [0.4, 0.5, 0.6]]
    assert values(vectors.get_vecs_by_tokens("a")) == [0.1, 0.2, 0.3]
    assert values(vectors.get_vecs_by_tokens(["A", "b"])) == [[0, 0, 0], [0.4, 0.5, 0.6]]
    assert values(vectors.get_vecs_by_tokens(["A", "zz"], lower_case_backup=True)) == [
        [0.1, 0.2, 0.3],
        [0, 0, 0],
    ]
    ones = text.embedding.CustomEmbedding(path, init_unknown_vec=mx.nd.ones)
    assert values(ones.idx_to_vec)[0] == [1, 1, 1]


def test_heads_and_second_vectors_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("2 3\na:1:2:3\na:4:5:6\n<unk>:5:5:5\nc:7:8:9\n<unk>:6:6:6\n".replace("2 3", "2:3"))
    with pytest.warns(UserWarning) as warned:
        vectors = text.embedding.CustomEmbedding(file, elem_delim=":")
    assert [str(each.message).split(", ")[1].split(":")[0] for each in warned] == [
        "line 1",
        "line 3",
        "line 6",
    ]
    assert vectors.idx_to_token == ["<unk>", "a", "c"]
    assert values(vectors.idx_to_vec) == [[5, 5, 5], [1, 2, 3], [7, 8, 9]]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a 1 2\nb x 3\n", "line 2, token 'b': could not convert"), ("a\n", "line 1: expected a token and numbers"),
        ("a 1 2 3\nb 1 2\n", "line 2: the vector of 'b' has 2 numbers, those before have 3"), ("", "expected vectors, got none"),
    ],
)  # fmt: skip
def test_damaged_files_are_refused(content: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "file").write_text(content)
    with pytest.raises(FileFormatError, match=said):
        text.embedding.CustomEmbedding(tmp_path / "file")


def test_vectors_of_a_vocabulary(path: Path) -> None:
    vocabulary = text.vocab.Vocabulary(COUNTER)
    vectors = text.embedding.CustomEmbedding(path, vocabulary=vocabulary)
    assert vectors.idx_to_token == vocabulary.idx_to_token
    assert values(vectors.idx_to_vec) == [[0] * 3, [0] * 3, [0.4, 0.5, 0.6], [0.1, 0.2, 0.3], [0] * 3]
    both = text.embedding.CompositeEmbedding(
        vocabulary, [text.embedding.CustomEmbedding(path), text.embedding.CustomEmbedding(path, init_unknown_vec=mx.nd.ones)]
    )  # fmt: skip
    assert both.vec_len == 6
    assert values(both.idx_to_vec)[1:3] == [[0, 0, 0, 1, 1, 1], [0.4, 0.5, 0.6, 0.4, 0.5, 0.6]]
    with pytest.raises(ArgumentError, match="vocabulary: expected a Vocabulary"):
        text.embedding.CompositeEmbedding("v", vectors)  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match="expected word vectors, got 3"):
        text.embedding.CompositeEmbedding(vocabulary, [3])  # type: ignore[list-item]


def test_vectors_are_changed(path: Path) -> None:
    vectors = text.embedding.CustomEmbedding(path)
    vectors.update_token_vectors("a", mx.nd.array([[9, 9, 9]]))
    assert values(vectors.get_vecs_by_tokens("a")) == [9, 9, 9]
    vectors.update_token_vectors("<unk>", mx.nd.array([7, 7, 7]))
    assert values(vectors.get_vecs_by_tokens("zz")) == [7, 7, 7]
    vectors.update_token_vectors(["a", "b"], mx.nd.array([[1, 1, 1], [2, 2, 2]]))
    assert values(vectors.get_vecs_by_tokens(["b", "a"])) == [[2, 2, 2], [1, 1, 1]]
    with pytest.raises(
        ArgumentError, match="'zz' is not known; the vector of unknown tokens is that of '<unk>'"
    ):
        vectors.update_token_vectors("zz", mx.nd.ones(3))
    for tokens, wrong in ((["a", "b"], mx.nd.ones(3)), ("a", mx.nd.ones(2)), ("a", [1, 1, 1])):
        with pytest.raises(ArgumentError, match="expected an NDArray of shape"):
            vectors.update_token_vectors(tokens, wrong)  # type: ignore[arg-type]


def test_files_of_known_names_are_read_where_mxnet_puts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for kind, name in (("glove", "glove.6B.50d.txt"), ("fasttext", "mine.vec")):
        (tmp_path / "embeddings" / kind).mkdir(parents=True)
        (tmp_path / "embeddings" / kind / name).write_text(LINES)
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    glove = text.embedding.create("glove", pretrained_file_name="glove.6B.50d.txt")
    assert values(glove.idx_to_vec)[1] == [0.1, 0.2, 0.3]
    assert len(text.embedding.FastText("mine.vec")) == 3
    with pytest.raises(
        MissingFileError, match=r"wiki.simple.vec is no file; nothing is downloaded: put the file there"
    ):
        text.embedding.create("fasttext")
    with pytest.raises(
        ArgumentError, match="'zz' is no file in .* and none that is known: glove.42B.300d.txt"
    ):
        text.embedding.GloVe("zz")


def test_names_of_files() -> None:
    names = text.embedding.get_pretrained_file_names()
    assert {kind: len(set(files)) for kind, files in names.items()} == {"glove": 10, "fasttext": 327}
    assert text.embedding.get_pretrained_file_names("GloVe") == names["glove"]
    with pytest.raises(KeyError, match="expected one of glove, fasttext, got 'zz'"):
        text.embedding.get_pretrained_file_names("zz")


def test_kinds_of_a_program() -> None:
    @text.embedding.register
    class Mine(text.embedding._TokenEmbedding): ...

    made = text.embedding.create("mine", reserved_tokens=["x"])
    assert (type(made), made.idx_to_token, made.vec_len, made.idx_to_vec) == (Mine, ["<unk>", "x"], 0, None)
    with pytest.raises(ArgumentError, match="there are no vectors yet"):
        made.get_vecs_by_tokens("x")
    with pytest.raises(ArgumentError, match="no token embedding 'zz' is registered"):
        text.embedding.create("zz")


def test_what_mxnet_asserts_is_an_assertion_error_too(path: Path) -> None:
    made = text.embedding.CustomEmbedding(path)
    bad = path.with_name("bad.txt")
    bad.write_text("a 1 2 3\nb 1 2\n")
    for wrong in (
        lambda: text.vocab.Vocabulary(min_freq=0),
        lambda: text.vocab.Vocabulary(reserved_tokens=["a", "a"]),
        lambda: text.vocab.Vocabulary(["a"]),
        lambda: made.update_token_vectors("a", mx.nd.zeros((2, 9))),
        lambda: text.embedding.CompositeEmbedding(made, "a"),
        lambda: text.embedding.CustomEmbedding(bad),
    ):
        with pytest.raises(AssertionError) as caught:
            wrong()
        assert isinstance(caught.value, mx.MXNetError)
