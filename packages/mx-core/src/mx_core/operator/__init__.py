# SPDX-License-Identifier: Apache-2.0
"""Operator declarations: what an operator means, once, in Python.

`Operator` is the general form, `SimpleOp` the elementwise one; classes of `opt(...)` and
`required(...)` members that derive from `Params` declare parameters.
"""

from mx_core.operator.arrays import Array as Array
from mx_core.operator.arrays import Arrays as Arrays
from mx_core.operator.arrays import ShapeOnly as ShapeOnly
from mx_core.operator.declaration import Operator as Operator
from mx_core.operator.declaration import ReferenceContext as ReferenceContext
from mx_core.operator.gradient import Entry as Entry
from mx_core.operator.gradient import Gradient as Gradient
from mx_core.operator.gradient import GradientBuilder as GradientBuilder
from mx_core.operator.gradient import Gradients as Gradients
from mx_core.operator.gradient import GradNode as GradNode
from mx_core.operator.gradient import gradient_of as gradient_of
from mx_core.operator.infer import infer_shapes as infer_shapes
from mx_core.operator.infer import infer_types as infer_types
from mx_core.operator.knowledge import Shapes as Shapes
from mx_core.operator.knowledge import Types as Types
from mx_core.operator.packages import operators_in as operators_in
from mx_core.operator.params import FieldInfo as FieldInfo
from mx_core.operator.params import NoParams as NoParams
from mx_core.operator.params import Params as Params
from mx_core.operator.params import opt as opt
from mx_core.operator.params import required as required
from mx_core.operator.simple import Elementwise as Elementwise
from mx_core.operator.simple import SimpleOp as SimpleOp
from mx_core.operator.text import Shape as Shape
