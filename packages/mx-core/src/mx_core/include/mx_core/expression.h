/* SPDX-License-Identifier: Apache-2.0
 *
 * The expression format: an elementwise function as data.
 *
 * SSA over a closed, versioned set of opcodes.  Values are numbered: first the
 * inputs, then the run-time scalars, then the constants, then one value per
 * instruction.  All values have one compute type, chosen by the generator from
 * the input types (mx_core.expression.compute_dtype): float32 for float32,
 * float16 and bfloat16; float64; int32; int64 (for the other integers and bool
 * the smallest of int32/int64 that holds them).  Loads convert to it and stores
 * convert from it.  Comparisons and logic yield 1 or 0.
 * An opcode a generator does not know makes it decline.
 *
 * Serialised form, little-endian: mx_expression_head, doubles[n_constants],
 * mx_instruction[n_instructions], uint32 outputs[n_outputs].
 */
#ifndef MX_CORE_EXPRESSION_H_
#define MX_CORE_EXPRESSION_H_

#include "mx_core/abi.h"

#ifdef __cplusplus
extern "C" {
#endif

#define MX_EXPRESSION_MAGIC 0x5845584du /* "MXEX" */
#define MX_EXPRESSION_MAJOR 1
#define MX_EXPRESSION_MINOR 0

typedef struct mx_expression_head {
  uint32_t magic;
  uint16_t major, minor;
  uint32_t n_inputs, n_scalars, n_constants, n_instructions, n_outputs;
  uint32_t reserved;
} mx_expression_head;

typedef struct mx_instruction {
  uint16_t opcode;
  uint16_t argument; /* MX_OP_CAST: the mx_dtype whose rounding and range to apply */
  uint32_t a, b, c;  /* value numbers; 0xffffffff when unused */
} mx_instruction;

/* X(NAME, value, arity) — the Python table mx_core/expression/opcodes.py is checked against this. */
#define MX_EXPRESSION_OPCODES(X)                                                                  \
  X(ADD, 1, 2) X(SUB, 2, 2) X(MUL, 3, 2) X(DIV, 4, 2) X(MOD, 5, 2) X(POW, 6, 2) X(MAXIMUM, 7, 2)   \
  X(MINIMUM, 8, 2) X(HYPOT, 9, 2) X(ARCTAN2, 10, 2) X(NEG, 20, 1) X(ABS, 21, 1) X(SIGN, 22, 1)     \
  X(ROUND, 23, 1) X(RINT, 24, 1) X(FLOOR, 25, 1) X(CEIL, 26, 1) X(TRUNC, 27, 1) X(SQRT, 28, 1)     \
  X(RSQRT, 29, 1) X(CBRT, 30, 1) X(RCBRT, 31, 1) X(SQUARE, 32, 1) X(RECIPROCAL, 33, 1)             \
  X(EXP, 34, 1) X(EXPM1, 35, 1) X(LOG, 36, 1) X(LOG1P, 37, 1) X(LOG2, 38, 1) X(LOG10, 39, 1)       \
  X(SIN, 40, 1) X(COS, 41, 1) X(TAN, 42, 1) X(ARCSIN, 43, 1) X(ARCCOS, 44, 1) X(ARCTAN, 45, 1)     \
  X(SINH, 46, 1) X(COSH, 47, 1) X(TANH, 48, 1) X(ARCSINH, 49, 1) X(ARCCOSH, 50, 1)                 \
  X(ARCTANH, 51, 1) X(ERF, 52, 1) X(ERFINV, 53, 1) X(GAMMA, 54, 1) X(GAMMALN, 55, 1)               \
  X(DIGAMMA, 56, 1) X(SIGMOID, 57, 1) X(RELU, 58, 1) X(SOFTPLUS, 59, 1) X(ISNAN, 60, 1)            \
  X(ISINF, 61, 1) X(ISFINITE, 62, 1) X(NOT, 63, 1) X(EQ, 80, 2) X(NE, 81, 2) X(LT, 82, 2)          \
  X(LE, 83, 2) X(GT, 84, 2) X(GE, 85, 2) X(AND, 86, 2) X(OR, 87, 2) X(XOR, 88, 2)                  \
  X(WHERE, 100, 3) X(CAST, 110, 1)

#define MX_EXPRESSION_ENUM(name, value, arity) MX_OP_##name = value,
typedef enum mx_opcode { MX_EXPRESSION_OPCODES(MX_EXPRESSION_ENUM) MX_OP_END = 65535 } mx_opcode;
#undef MX_EXPRESSION_ENUM

#ifdef __cplusplus
}
#endif
#endif /* MX_CORE_EXPRESSION_H_ */
