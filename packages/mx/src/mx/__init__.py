# SPDX-License-Identifier: Apache-2.0
"""The umbrella: import mx."""

__version__ = "0.1.0"
