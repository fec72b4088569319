# SPDX-License-Identifier: Apache-2.0
"""Matrix products: FullyConnected, dot, batch_dot, gemm, syrk."""
