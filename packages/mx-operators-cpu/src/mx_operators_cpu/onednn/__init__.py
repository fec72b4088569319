# SPDX-License-Identifier: Apache-2.0
"""oneDNN kernels: convolution, matrix products, pooling, normalisation, softmax."""
