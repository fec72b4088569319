# SPDX-License-Identifier: Apache-2.0
"""Vocabularies: tokens, how often they come, and their indices."""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Hashable, Sequence
from typing import Any

from mx_core.errors import ArgumentError


def count_tokens_from_str(
    source_str: str,
    token_delim: str = " ",
    seq_delim: str = "\n",
    to_lower: bool = False,
    counter_to_update: Counter[str] | None = None,
) -> Counter[str]:
    r"""How often each token comes in a text.

    Parameters
    ----------
    source_str : str
    token_delim, seq_delim : str
        Regular expressions of what stands between tokens and between sequences, as in MXNet: `"\\*"` is a star.
    to_lower : bool
        Whether tokens are counted in lower case. Delimiters are those of the text as it is.
    counter_to_update : Counter, optional
        To whose counts these are added.

    Returns
    -------
    Counter
        `counter_to_update` if it is given, otherwise a new one.

    Examples
    --------
    >>> count_tokens_from_str("a b\nb", to_lower=True)
    Counter({'b': 2, 'a': 1})
    """
    tokens = [token for token in re.split(f"{token_delim}|{seq_delim}", source_str) if token]
    counter: Counter[str] = Counter() if counter_to_update is None else counter_to_update
    counter.update(token.lower() if to_lower else token for token in tokens)
    return counter


class Asserted(ArgumentError, AssertionError):
    """An argument that MXNet asserts: programs catch an AssertionError."""


class Vocabulary:
    """Tokens with indices: the unknown token has 0, reserved tokens follow, then the others from frequent to rare.

    Tokens of equal frequency are in the order of the alphabet.

    Threads: any may read.

    Parameters
    ----------
    counter : Counter, optional
        How often each token comes. Without it the vocabulary has the unknown and reserved tokens alone.
    most_freq_count : int, optional
        How many tokens of the counter are taken at most, not counting those that are known already.
    min_freq : int
        How often a token must come to be taken.
    unknown_token : hashable
        What tokens that the vocabulary does not have count as.
    reserved_tokens : sequence of hashable, optional
        Tokens that it has in any case, such as padding.

    Raises
    ------
    ArgumentError  `min_freq` is below 1, a reserved token comes twice or is the unknown one, or `counter` is no Counter

    Examples
    --------
    >>> from collections import Counter
    >>> Vocabulary(Counter("abbc"), reserved_tokens=["<pad>"]).to_indices(["b", "z", "c"])
    [2, 0, 4]
    """

    def __init__(
        self,
        counter: Counter[Any] | None = None,
        most_freq_count: int | None = None,
        min_freq: int = 1,
        unknown_token: Hashable = "<unk>",
        reserved_tokens: Sequence[Hashable] | None = None,
    ) -> None:
        if min_freq < 1:
            raise Asserted(f"[Vocabulary] min_freq: expected at least 1, got {min_freq}")
        reserved = list(reserved_tokens or ())
        twice = [token for token, count in Counter(reserved).items() if count > 1]
        if twice or unknown_token in reserved:
            wrong = twice[0] if twice else unknown_token
            raise Asserted(
                f"[Vocabulary] reserved_tokens: expected each token once, and not the unknown one, got {wrong!r}"
            )
        self._unknown_token = unknown_token
        self._reserved_tokens = None if reserved_tokens is None else reserved
        self._idx_to_token: list[Any] = [unknown_token, *reserved]
        if counter is not None:
            self._take(counter, most_freq_count, min_freq)
        self._token_to_idx: dict[Any, int] = {token: index for index, token in enumerate(self._idx_to_token)}

    def _take(self, counter: Counter[Any], most: int | None, least: int) -> None:
        if not isinstance(counter, Counter):
            raise Asserted(f"[Vocabulary] counter: expected a collections.Counter, got {counter!r}")
        known = set(self._idx_to_token)
        ordered = sorted(
            sorted(counter.items(), key=lambda item: item[0]), key=lambda item: item[1], reverse=True
        )
        taken = [token for token, count in ordered if count >= least and token not in known]
        self._idx_to_token += taken if most is None or most < 0 else taken[:most]

    def __len__(self) -> int:
        return len(self._idx_to_token)

    @property
    def token_to_idx(self) -> dict[Any, int]:
        """Token -> index."""
        return self._token_to_idx

    @property
    def idx_to_token(self) -> list[Any]:
        """The tokens in the order of their indices."""
        return self._idx_to_token

    @property
    def unknown_token(self) -> Any:
        """What unknown tokens count as."""
        return self._unknown_token

    @property
    def reserved_tokens(self) -> list[Any] | None:
        """The reserved tokens; None without."""
        return self._reserved_tokens

    def to_indices(self, tokens: Any) -> Any:
        """The index of a token, or a list of those of a list of tokens; 0 for unknown ones."""
        if isinstance(tokens, list):
            return [self._token_to_idx.get(token, 0) for token in tokens]
        return self._token_to_idx.get(tokens, 0)

    def to_tokens(self, indices: int | Sequence[int]) -> Any:
        """The token of an index, or a list of those of a list of indices.

        Raises
        ------
        ArgumentError  an index is no integer from 0 to `len(self) - 1`
        """
        if isinstance(indices, Sequence) and not isinstance(indices, str):
            return [self._token(index) for index in indices]
        return self._token(indices)

    def _token(self, index: Any) -> Any:
        place = operator.index(index) if hasattr(index, "__index__") else -1
        if not 0 <= place < len(self._idx_to_token):
            raise ArgumentError(
                f"[Vocabulary.to_tokens] indices: expected integers from 0 to {len(self) - 1}, got {index!r}"
            )
        return self._idx_to_token[place]
