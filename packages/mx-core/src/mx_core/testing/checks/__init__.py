# SPDX-License-Identifier: Apache-2.0
"""What `mx plugins check` tries of each kind of contribution."""
