# SPDX-License-Identifier: Apache-2.0
"""The namespace `mx.sym`: `Symbol`, variables, and a function for every registered operator.

Functions are made when they are first asked for, from the operators' declarations.
"""

from mx_symbol.serialization.json_reader import fromjson as fromjson
from mx_symbol.serialization.json_reader import load as load
from mx_symbol.serialization.json_reader import load_json as load_json
from mx_symbol.symbol import Group as Group
from mx_symbol.symbol import Symbol as Symbol
from mx_symbol.symbol import Variable as Variable
from mx_symbol.symbol import var as var
from mx_symbol.symbol.arithmetic import hypot as hypot
from mx_symbol.symbol.arithmetic import maximum as maximum
from mx_symbol.symbol.arithmetic import minimum as minimum
from mx_symbol.symbol.arithmetic import power as power
from mx_symbol.symbol.composites import histogram as histogram
from mx_symbol.symbol.creation import arange as arange
from mx_symbol.symbol.creation import eye as eye
from mx_symbol.symbol.creation import full as full
from mx_symbol.symbol.creation import linspace as linspace
from mx_symbol.symbol.creation import ones as ones
from mx_symbol.symbol.creation import split_v2 as split_v2
from mx_symbol.symbol.creation import zeros as zeros
from mx_symbol.symbol.namespaces import Lookup, namespace

__getattr__: Lookup
__getattr__, __dir__ = namespace(__name__, "", vars())

pow = power
