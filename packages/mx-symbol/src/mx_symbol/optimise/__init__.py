# SPDX-License-Identifier: Apache-2.0
"""The graph passes that come with mx-symbol."""
