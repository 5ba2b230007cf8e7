// SPDX-License-Identifier: Apache-2.0
// Energy in report.json.
#pragma once

#include <nlohmann/json.hpp>

#include <miniapp/measure/result.hpp>

namespace shardmark {

/// The key `energy`: null where nothing was measured, since 0 would be wrong.
nlohmann::ordered_json energy_json(const EnergyFigure& figure);

}  // namespace shardmark
