# SPDX-License-Identifier: Apache-2.0
"""What is asked of several arrays at once: one native call, where Python would take one for each.

Threads: any.
"""

from mx_ndarray._core import are_alike as are_alike
from mx_ndarray._core import common_context as common_context
from mx_ndarray._core import first_stale as first_stale
from mx_ndarray._core import is_current_context as is_current_context
from mx_ndarray._core import make_stale as make_stale
from mx_ndarray._core import signature_key as signature_key
