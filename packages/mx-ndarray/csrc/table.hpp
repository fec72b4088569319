// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mx_core/invoke.h"

namespace mx::nd {

// Lives as long as the process.
const mx_invoke_api* invoke_table() noexcept;

}  // namespace mx::nd
