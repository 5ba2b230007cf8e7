// SPDX-License-Identifier: Apache-2.0
// Measures the machine on which the program runs, and describes it as a machine file does.
#pragma once

#include <string>
#include <vector>

#include <miniapp/run/launch.hpp>
#include <miniapp/tools/calibrate/calibrate_arguments.hpp>
#include <miniapp/tools/calibrate/smoothing.hpp>

namespace shardmark {

struct Calibration {
  Machine machine;
  std::vector<LeftOut> left_out;  // of the machine's points
  double seconds = 0;
};

/// Collective over all ranks. Takes a few minutes, or half a minute if `quick`. Throws AgreedError,
/// also if the nodes have different numbers of ranks, and CommError.
Calibration calibrate(const CalibrateArguments& arguments, const World& world);

/// A calibration, with the means of what an earlier one of the same machine has measured as well,
/// and with the placements that only the earlier one has met. Each calibration counts the same, and
/// a placement by its part of it. A host that other virtual machines share may be slow for as long
/// as one calibration takes.
Machine combined(Machine machine, const Machine& earlier);

/// The points and their residuals as a page that needs no other file.
std::string calibration_html(const Calibration& calibration);

}  // namespace shardmark
