# SPDX-License-Identifier: Apache-2.0
"""Parameter servers on Ray, for jobs that outlive lost workers and servers."""

__version__ = "0.1.0"
