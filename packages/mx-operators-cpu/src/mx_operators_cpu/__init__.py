# SPDX-License-Identifier: Apache-2.0
"""Native CPU kernels: oneDNN and vectorised loops."""

__version__ = "0.1.0"
