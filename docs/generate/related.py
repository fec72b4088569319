# SPDX-License-Identifier: Apache-2.0
"""Operators that are related to one: those of its source file and of its name."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence

from mx_core.operator import Operator

#: how many are named
MOST = 6
#: operators in a source file from which on they are neighbours by chance
CROWD = 12
#: letters of a word that is sought within others
LONG = 4


def words(op: Operator) -> frozenset[str]:
    """Words of a name: `_contrib_ROIAlign` has roi and align."""
    parts = re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", op.name)
    return frozenset(part.lower() for part in parts)


def alike(first: str, second: str) -> bool:
    """Whether one long word is the end of another, as in convolution and deconvolution."""
    return min(len(first), len(second)) >= LONG and (first.endswith(second) or second.endswith(first))


def relatives(ops: Sequence[Operator]) -> Mapping[str, list[Operator]]:
    """Per operator those with rare words in common and its neighbours, the nearest first."""
    vocabulary = {op.name: words(op) for op in ops}
    frequency = Counter(word for found in vocabulary.values() for word in found)
    crowd = Counter(type(op).__module__ for op in ops)

    def nearness(a: Operator, b: Operator) -> float:
        common = vocabulary[a.name] & vocabulary[b.name]
        common |= {x for x in vocabulary[a.name] for y in vocabulary[b.name] if x != y and alike(x, y)}
        score = sum(math.log(len(ops) / frequency[word]) for word in common)
        if type(a).__module__ == type(b).__module__ and crowd[type(a).__module__] <= CROWD:
            score += 2
        return score

    result = {}
    for op in ops:
        scored = [(nearness(op, other), other) for other in ops if other is not op]
        near = sorted((pair for pair in scored if pair[0] >= 2), key=lambda pair: (-pair[0], pair[1].name))
        result[op.name] = [other for _, other in near[:MOST]]
    return result
