# SPDX-License-Identifier: Apache-2.0
"""The namespace `mx.nd`: functions generated from operators, and those written in Python.

Operators of plug-ins appear here as soon as they are installed.
"""

from mx_ndarray._core import waitall as waitall
from mx_ndarray.codes import _DTYPE_MX_TO_NP as _DTYPE_MX_TO_NP
from mx_ndarray.codes import _DTYPE_NP_TO_MX as _DTYPE_NP_TO_MX
from mx_ndarray.codes import _GRAD_REQ_MAP as _GRAD_REQ_MAP
from mx_ndarray.codes import _STORAGE_TYPE_CSR as _STORAGE_TYPE_CSR
from mx_ndarray.codes import _STORAGE_TYPE_DEFAULT as _STORAGE_TYPE_DEFAULT
from mx_ndarray.codes import _STORAGE_TYPE_ID_TO_STR as _STORAGE_TYPE_ID_TO_STR
from mx_ndarray.codes import _STORAGE_TYPE_ROW_SPARSE as _STORAGE_TYPE_ROW_SPARSE
from mx_ndarray.codes import _STORAGE_TYPE_STR_TO_ID as _STORAGE_TYPE_STR_TO_ID
from mx_ndarray.codes import _STORAGE_TYPE_UNDEFINED as _STORAGE_TYPE_UNDEFINED
from mx_ndarray.creation import arange as arange
from mx_ndarray.creation import array as array
from mx_ndarray.creation import empty as empty
from mx_ndarray.creation import eye as eye
from mx_ndarray.creation import from_numpy as from_numpy
from mx_ndarray.creation import full as full
from mx_ndarray.creation import linspace as linspace
from mx_ndarray.creation import ones as ones
from mx_ndarray.creation import zeros as zeros
from mx_ndarray.custom import Custom as Custom
from mx_ndarray.exchange import from_dlpack as from_dlpack
from mx_ndarray.functions import add as add
from mx_ndarray.functions import concatenate as concatenate
from mx_ndarray.functions import divide as divide
from mx_ndarray.functions import equal as equal
from mx_ndarray.functions import greater as greater
from mx_ndarray.functions import greater_equal as greater_equal
from mx_ndarray.functions import histogram as histogram
from mx_ndarray.functions import hypot as hypot
from mx_ndarray.functions import lesser as lesser
from mx_ndarray.functions import lesser_equal as lesser_equal
from mx_ndarray.functions import logical_and as logical_and
from mx_ndarray.functions import logical_or as logical_or
from mx_ndarray.functions import logical_xor as logical_xor
from mx_ndarray.functions import maximum as maximum
from mx_ndarray.functions import minimum as minimum
from mx_ndarray.functions import modulo as modulo
from mx_ndarray.functions import moveaxis as moveaxis
from mx_ndarray.functions import multiply as multiply
from mx_ndarray.functions import not_equal as not_equal
from mx_ndarray.functions import onehot_encode as onehot_encode
from mx_ndarray.functions import power as power
from mx_ndarray.functions import split_v2 as split_v2
from mx_ndarray.functions import subtract as subtract
from mx_ndarray.functions import true_divide as true_divide
from mx_ndarray.image_files import imdecode as imdecode
from mx_ndarray.nd import _internal as _internal
from mx_ndarray.nd import contrib as contrib
from mx_ndarray.nd import image as image
from mx_ndarray.nd import linalg as linalg
from mx_ndarray.nd import op as op
from mx_ndarray.nd import random as random
from mx_ndarray.nd import utils as utils
from mx_ndarray.ndarray import NDArray as NDArray
from mx_ndarray.operator_functions import namespace as _namespace
from mx_ndarray.serialization import load as load
from mx_ndarray.serialization import load_frombuffer as load_frombuffer
from mx_ndarray.serialization import save as save

__getattr__, _operator_names = _namespace(__name__, public=True, absent={"sparse": "sparse arrays"})


def to_dlpack_for_read(data: NDArray) -> object:
    """A DLPack capsule for reading; waits for writers."""
    return data.to_dlpack_for_read()


def to_dlpack_for_write(data: NDArray) -> object:
    """A DLPack capsule for writing; waits for readers and writers."""
    return data.to_dlpack_for_write()


def __dir__() -> list[str]:
    return sorted({*globals(), *_operator_names()})
