// SPDX-License-Identifier: Apache-2.0
// Returns the message of a CommError, for tests of messages.
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark::test {

template<class Body>
std::string message_of(Body body) {
  try {
    body();
  } catch (const CommError& e) {
    return e.what();
  }
  return "no CommError";
}

}  // namespace shardmark::test
