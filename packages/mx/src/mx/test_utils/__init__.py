# SPDX-License-Identifier: Apache-2.0
"""Helpers for tests of operators and networks: comparisons, random arrays, gradient checks."""

import sys as _sys

from mx.absent import explain as _explain
from mx.test_utils.arrays import assign_each as assign_each
from mx.test_utils.arrays import assign_each2 as assign_each2
from mx.test_utils.arrays import collapse_sum_like as collapse_sum_like
from mx.test_utils.arrays import create_2d_tensor as create_2d_tensor
from mx.test_utils.arrays import create_vector as create_vector
from mx.test_utils.arrays import get_identity_mat as get_identity_mat
from mx.test_utils.arrays import get_identity_mat_batch as get_identity_mat_batch
from mx.test_utils.arrays import np_reduce as np_reduce
from mx.test_utils.arrays import rand_coord_2d as rand_coord_2d
from mx.test_utils.arrays import rand_ndarray as rand_ndarray
from mx.test_utils.arrays import rand_shape_2d as rand_shape_2d
from mx.test_utils.arrays import rand_shape_3d as rand_shape_3d
from mx.test_utils.arrays import rand_shape_nd as rand_shape_nd
from mx.test_utils.arrays import random_arrays as random_arrays
from mx.test_utils.arrays import random_sample as random_sample
from mx.test_utils.arrays import random_uniform_arrays as random_uniform_arrays
from mx.test_utils.arrays import same_array as same_array
from mx.test_utils.compare import almost_equal as almost_equal
from mx.test_utils.compare import assert_allclose as assert_allclose
from mx.test_utils.compare import assert_almost_equal as assert_almost_equal
from mx.test_utils.compare import assert_almost_equal_ignore_nan as assert_almost_equal_ignore_nan
from mx.test_utils.compare import assert_almost_equal_with_err as assert_almost_equal_with_err
from mx.test_utils.compare import same as same
from mx.test_utils.consistency import check_consistency as check_consistency
from mx.test_utils.consistency import check_speed as check_speed
from mx.test_utils.consistency import compare_ndarray_tuple as compare_ndarray_tuple
from mx.test_utils.consistency import compare_optimizer as compare_optimizer
from mx.test_utils.datasets import download as download
from mx.test_utils.datasets import download_model as download_model
from mx.test_utils.datasets import get_bz2_data as get_bz2_data
from mx.test_utils.datasets import get_cifar10 as get_cifar10
from mx.test_utils.datasets import get_mnist as get_mnist
from mx.test_utils.datasets import get_mnist_iterator as get_mnist_iterator
from mx.test_utils.datasets import get_mnist_pkl as get_mnist_pkl
from mx.test_utils.datasets import get_mnist_ubyte as get_mnist_ubyte
from mx.test_utils.datasets import get_zip_data as get_zip_data
from mx.test_utils.iterators import DummyIter as DummyIter
from mx.test_utils.matrices import new_matrix_with_real_eigvals_2d as new_matrix_with_real_eigvals_2d
from mx.test_utils.matrices import new_matrix_with_real_eigvals_nd as new_matrix_with_real_eigvals_nd
from mx.test_utils.matrices import new_orthonormal_matrix_2d as new_orthonormal_matrix_2d
from mx.test_utils.matrices import new_sym_matrix_with_real_eigvals_2d as new_sym_matrix_with_real_eigvals_2d
from mx.test_utils.matrices import new_sym_matrix_with_real_eigvals_nd as new_sym_matrix_with_real_eigvals_nd
from mx.test_utils.numeric import check_numeric_gradient as check_numeric_gradient
from mx.test_utils.numeric import numeric_grad as numeric_grad
from mx.test_utils.statistics import chi_square_check as chi_square_check
from mx.test_utils.statistics import gen_buckets_probs_with_ppf as gen_buckets_probs_with_ppf
from mx.test_utils.statistics import mean_check as mean_check
from mx.test_utils.statistics import var_check as var_check
from mx.test_utils.statistics import verify_generator as verify_generator
from mx.test_utils.surroundings import assert_exception as assert_exception
from mx.test_utils.surroundings import default_context as default_context
from mx.test_utils.surroundings import default_dtype as default_dtype
from mx.test_utils.surroundings import discard_stderr as discard_stderr
from mx.test_utils.surroundings import environment as environment
from mx.test_utils.surroundings import list_gpus as list_gpus
from mx.test_utils.surroundings import retry as retry
from mx.test_utils.surroundings import set_default_context as set_default_context
from mx.test_utils.symbolic import check_symbolic_backward as check_symbolic_backward
from mx.test_utils.symbolic import check_symbolic_forward as check_symbolic_forward
from mx.test_utils.symbolic import same_symbol_structure as same_symbol_structure
from mx.test_utils.symbolic import simple_forward as simple_forward
from mx.test_utils.tolerance import default_atols as default_atols
from mx.test_utils.tolerance import default_numeric_eps as default_numeric_eps
from mx.test_utils.tolerance import default_rtols as default_rtols
from mx.test_utils.tolerance import effective_dtype as effective_dtype
from mx.test_utils.tolerance import get_atol as get_atol
from mx.test_utils.tolerance import get_etol as get_etol
from mx.test_utils.tolerance import get_rtol as get_rtol
from mx.test_utils.tolerance import get_tolerance as get_tolerance
from mx.test_utils.tolerance import get_tols as get_tols

_explain(_sys.modules[__name__], [__name__])
