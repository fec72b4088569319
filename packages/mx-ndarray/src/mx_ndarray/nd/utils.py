# SPDX-License-Identifier: Apache-2.0
"""Creation, reading and writing of arrays under the module name that some programs of MXNet import."""

from mx_ndarray.creation import array as array
from mx_ndarray.creation import empty as empty
from mx_ndarray.creation import zeros as zeros
from mx_ndarray.serialization import load as load
from mx_ndarray.serialization import load_frombuffer as load_frombuffer
from mx_ndarray.serialization import save as save
