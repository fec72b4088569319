# SPDX-License-Identifier: Apache-2.0
"""Counting tokens."""

from mx_train.vocabulary import count_tokens_from_str as count_tokens_from_str
