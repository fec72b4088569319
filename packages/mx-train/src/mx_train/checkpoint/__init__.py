# SPDX-License-Identifier: Apache-2.0
"""`mx.checkpoint`: a training that is killed at any moment goes on where it was."""

from mx_train.checkpoint.training import Training as Training
