# SPDX-License-Identifier: Apache-2.0
"""RecordIO, data iterators and the image pipeline."""

__version__ = "0.1.0"
