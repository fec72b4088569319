# SPDX-License-Identifier: Apache-2.0
"""Counting tokens."""

from __future__ import annotations

import re
from collections import Counter


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
