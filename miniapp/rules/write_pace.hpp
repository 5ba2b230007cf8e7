// SPDX-License-Identifier: Apache-2.0
// What a storage run says while it writes: a run that cannot become official in its time says so
// before it has written and read for minutes.
#pragma once

#include <string>
#include <vector>

#include <miniapp/rules/run_class.hpp>

namespace shardmark {

/// That the writes of the storage benchmark will be too few for an official figure at the pace of
/// the first ones, which took `write_s`, and the `--set` with which they are not. Empty if they
/// last long enough, or if something else, in `start`, the class before the first step, stands
/// against an official figure. Pure.
std::string describe_write_pace(ClassFacts facts, const RunClass& start,
                                const std::vector<double>& write_s);

}  // namespace shardmark
