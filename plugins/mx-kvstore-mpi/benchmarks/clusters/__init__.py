# SPDX-License-Identifier: Apache-2.0
"""A simulation of exchanges between many workers: what one step costs, and which exchange serves how many of them."""
