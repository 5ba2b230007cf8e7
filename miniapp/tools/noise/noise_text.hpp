// SPDX-License-Identifier: Apache-2.0
// The figures of `noise` in words, as the terminal and the page show them.
#pragma once

#include <string>
#include <vector>

#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {

/// A table: the names of the columns first. The first column is text.
using NoiseRows = std::vector<std::vector<std::string>>;

/// The quanta without communication and their delays: of each rank, or of those that lost most, of
/// each host, and of all.
NoiseRows quanta_rows(const Noise& noise);
/// The rounds of a quantum and a barrier: measured and predicted.
NoiseRows loop_rows(const Noise& noise);
/// The expected delay of the slowest of many ranks in a round.
NoiseRows scale_rows(const Noise& noise);

/// What comes regularly, one sentence each; "none found" if nothing does.
std::vector<std::string> period_sentences(const Noise& noise);
/// By how much ranks differ in the same work; empty if that was not measured.
std::string spread_sentence(const Noise& noise);

}  // namespace shardmark
