// SPDX-License-Identifier: Apache-2.0
// What `shardmark noise` is given.
#pragma once

#include <string>

namespace shardmark {

struct NoiseArguments {
  int seconds = 10;       // of both loops together
  int quantum_us = 1000;  // of work
  std::string machine;    // a machine file that takes the result; empty: none
  std::string out;        // a folder for noise.json and noise.html; empty: none
  std::string format = "text";
};

}  // namespace shardmark
