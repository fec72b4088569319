# SPDX-License-Identifier: Apache-2.0
"""`mx.notebook`: tables and live pictures of a training in a notebook."""

from mx_train.notebook import callback as callback
