// SPDX-License-Identifier: Apache-2.0
// Several calibrations of one machine as one: a host that other virtual machines share may be slow
// for as long as a calibration takes.
#pragma once

#include <core/plan/price/machine.hpp>

namespace shardmark {

/// A calibration, with the means of what an earlier one of the same machine has measured as well,
/// and with the placements that only the earlier one has met. Each calibration counts the same, and
/// a placement by its part of it.
Machine combined(Machine machine, const Machine& earlier);

}  // namespace shardmark
