# SPDX-License-Identifier: Apache-2.0
"""Key-value store for parameters: local, device, and the contract for distributed stores."""

__version__ = "0.1.0"
