// SPDX-License-Identifier: Apache-2.0
//
// Sums over the workers of one machine whose windows see the others' arrays: straight from where these lie to where the
// sums go.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "shared_sums.hpp"
#include "window.hpp"

namespace mx::kv {

// An item whose arrays all workers have in memory that the others have mapped.
struct Direct {
  size_t item;
  std::vector<const void*> sources;  // in the order of ranks
  std::vector<void*> targets;        // of all workers
};

// Of items, the same on all workers: those that can be summed so, which are the same on all workers again.  Each tells
// the others where its large arrays are.  None where windows see nothing.  Blocks; false when the window was stopped.
bool find_direct(Window& window, const std::vector<Item>& items, std::vector<Direct>& found);

// Sums them in their order: each worker adds a part of each item and writes it to all targets, so every element is read
// once and each target written once.  The bits are those of `exchange`.  Blocks; false when the window was stopped:
// then others may still read and write this worker's arrays.
// `done(i)`: item i is complete, and nobody reads or writes it any more.
bool sum_direct(Window& window, const std::vector<Item>& items, const std::vector<Direct>& direct,
                const std::function<void(size_t)>& done);

}  // namespace mx::kv
