# SPDX-License-Identifier: Apache-2.0
"""`mx.contrib.text`: vocabularies and word vectors."""

import sys as _sys

from mx.absent import explain as _explain
from mx.contrib.text import embedding as embedding
from mx.contrib.text import utils as utils
from mx.contrib.text import vocab as vocab

__all__ = ["embedding", "utils", "vocab"]

_explain(_sys.modules[__name__], [__name__])
