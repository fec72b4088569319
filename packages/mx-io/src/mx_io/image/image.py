# SPDX-License-Identifier: Apache-2.0
"""The module `mx.image.image` of MXNet: what is in `mx.image` and not about detection."""

from mx_io.image.augmenters import *  # noqa: F403
from mx_io.image.create import CreateAugmenter as CreateAugmenter
from mx_io.image.functions import *  # noqa: F403
from mx_io.image.iterator import ImageIter as ImageIter
from mx_io.image.rotation import imrotate as imrotate
from mx_io.image.rotation import random_rotate as random_rotate
