# SPDX-License-Identifier: Apache-2.0
"""Vocabularies: tokens and their indices."""

from mx_train.vocabulary import Vocabulary as Vocabulary
