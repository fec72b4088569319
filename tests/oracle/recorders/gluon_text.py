# SPDX-License-Identifier: Apache-2.0
"""Records texts and the sampler of MXNet 1.9.1's `gluon.contrib.data`. Runs under Python 3.8.

python gluon_text.py             records the cases below anew
python gluon_text.py --check     compares with what is recorded, and changes nothing
"""

import os
import tempfile

from common import write_or_check
from mxnet.contrib.text.vocab import Vocabulary
from mxnet.gluon.contrib import data

PATH = os.path.join(os.path.dirname(os.path.abspath(__file__)), os.pardir, "gluon", "text.json")

LINES = " = Heading = \n\n the cat <unk> the mat \n a cat , a dog and the <eos> bird\n \nthe end\n"
ODD = "tab\tbed  two\r\nnext\rlast\x0bafter\x0cform\u2028line\u00a0hard\u3000wide \u00fcber\x85new"

#: class, segment, content, words in a row, words of a vocabulary
TEXTS = [
    ("WikiText2", "train", LINES, 3, None),
    ("WikiText2", "validation", LINES, 4, ["the", "cat", "the", "dog"]),
    ("WikiText103", "test", LINES, 21, None),
    ("WikiText2", "train", LINES, 22, None),
    ("WikiText2", "train", LINES, 23, None),
    ("WikiText2", "train", ODD, 2, None),
    ("WikiText2", "train", "", 2, None),
]
FILES = {"train": "wiki.train.tokens", "validation": "wiki.valid.tokens", "test": "wiki.test.tokens"}

#: length, interval, rollover
INTERVALS = [(13, 3, True), (13, 3, False), (5, 5, True), (5, 5, False), (4, 1, True), (7, 4, True)]


def text(name, segment, content, length, words):
    """What a data set has of a file with this content."""
    data.text.check_sha1 = lambda path, expected: True
    vocab = words and Vocabulary(data.text.text.utils.count_tokens_from_str(" ".join(words)))
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, FILES[segment]), "wb") as file:
            file.write(content.encode())
        found = getattr(data.text, name)(folder, segment, vocab, length)
    return {
        "given": [name, segment, content, length, words],
        "data": found._data.asnumpy().tolist(),
        "label": found._label.asnumpy().tolist(),
        "dtype": found[0:1][1].dtype.__name__ if len(found) else None,
        "length": len(found),
        "tokens": found.vocabulary.idx_to_token,
        "frequencies": found.frequencies,
    }


def main():
    texts = [text(*case) for case in TEXTS]
    intervals = [[case, list(data.IntervalSampler(*case))] for case in INTERVALS]
    write_or_check(PATH, {"texts": texts, "intervals": intervals}, 0, indent=None)


if __name__ == "__main__":
    main()
