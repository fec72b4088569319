# SPDX-License-Identifier: Apache-2.0
"""Regression outputs, CTC, SVM."""
