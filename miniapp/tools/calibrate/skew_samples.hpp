// SPDX-License-Identifier: Apache-2.0
// How far ranks end apart that begin the same kernels together, by the length of their work.
#pragma once

#include <map>
#include <span>
#include <vector>

#include <core/plan/price/machine.hpp>

namespace shardmark {

class SkewSamples {
 public:
  /// `seconds`: of the same kernels on each of `ranks` ranks at the same time, rank by rank. Each
  /// run of 1, 2, 4, … successive kernels is a sample. Nothing is added for one rank.
  void add(std::span<const double> seconds, int ranks);
  /// The median skew, as predictions are of median steps, by powers of 2 of the mean time; lengths
  /// with few samples are left out.
  RankSkew result() const;

 private:
  struct Samples {
    double work_s = 0;  // the sum of all
    std::vector<double> skews_s;
  };
  std::map<int, Samples> by_length_;  // by log2 of the seconds
  int ranks_ = 0;
};

}  // namespace shardmark
