# SPDX-License-Identifier: Apache-2.0
"""Functions of the operators in the namespace `sym.contrib`, made when first asked for."""

from mx_symbol.symbol.composites import rand_zipfian as rand_zipfian
from mx_symbol.symbol.namespaces import Lookup, namespace

__getattr__: Lookup
__getattr__, __dir__ = namespace(__name__, "contrib", ("rand_zipfian",))
