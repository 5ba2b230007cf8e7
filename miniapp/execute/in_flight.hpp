// SPDX-License-Identifier: Apache-2.0
// An operation that the executor has started. Each queue of the executor (collectives, the link
// between host and device, files) has the same four functions:
//   start      puts an operation into the queue and returns its number, from 1
//   hold       makes what the compute lane does next come after an operation, or waits for it
//   progress   lets operations advance that need the host for that
//   finish     waits until the queue is empty
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardmark {

/// Identifies a started operation until it is finished.
struct InFlight {
  static constexpr std::size_t no_copy = SIZE_MAX;

  std::uint64_t number = 0;           // in its queue; 0: none, or the compute lane is held already
  std::size_t traced_copy = no_copy;  // its index in StepTrace::copies, if its times come later
};

}  // namespace shardmark
