// SPDX-License-Identifier: Apache-2.0
// What `shardmark run` is given.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

/// The arguments of the command, after parsing.
struct RunArguments {
  std::string deck;               // path
  std::vector<std::string> sets;  // "key.path=value"
  std::string out = "shardmark-out";
  bool quiet = false;        // nothing is printed: the files of the report contain everything
  std::string machine = {};  // a machine file, for a prediction of the run; empty: none
};

}  // namespace shardmark
