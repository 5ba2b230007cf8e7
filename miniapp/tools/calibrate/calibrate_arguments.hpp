// SPDX-License-Identifier: Apache-2.0
// What `shardmark calibrate` is given.
#pragma once

#include <string>
#include <vector>

namespace shardmark {

struct CalibrateArguments {
  std::string out = "machine.json";
  std::string deck;               // whose shapes are measured, too; empty: none
  std::vector<std::string> sets;  // for the deck
  std::string disk = ".";         // folder on the disk that is measured
  bool quick = false;
  bool add = false;  // combines the calibration with those in the file at `out`: combined()
};

}  // namespace shardmark
