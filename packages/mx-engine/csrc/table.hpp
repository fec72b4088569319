// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "mx_core/engine.h"

namespace mx::engine {

class Engine;

// Fills in the C table of an engine; the engine owns it.
void fill_table(mx_engine_api* table, Engine* engine) noexcept;

}  // namespace mx::engine
