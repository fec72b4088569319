# SPDX-License-Identifier: Apache-2.0
"""What tests of several packages share. Not published: pytest's setting `pythonpath` makes it importable."""
