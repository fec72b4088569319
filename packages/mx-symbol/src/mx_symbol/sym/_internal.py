# SPDX-License-Identifier: Apache-2.0
"""Functions of the operators in the namespace `sym._internal`, made when first asked for."""

from mx_symbol.symbol.namespaces import Lookup, namespace

__getattr__: Lookup
__getattr__, __dir__ = namespace(__name__, "_internal")
