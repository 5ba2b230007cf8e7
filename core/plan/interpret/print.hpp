// SPDX-License-Identifier: Apache-2.0
// A program for people and for scripts: text is the readable specification of a ZeRO stage, dot
// draws lanes and order edges, JSON is what other people's scripts rely on (README, "plan --format
// json").
#pragma once

#include <string>

#include <nlohmann/json_fwd.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// One line an event, segment by segment, with what is alive at the ends. The plan hash is of this.
std::string print_text(const Program& program);

/// Graphviz: one cluster a segment, one column a lane, order edges dashed.
std::string print_dot(const Program& program);

/// The object that `plan --format json` prints. `budgets`: of the deck; where one is given, the
/// tier gets "fits".
nlohmann::ordered_json print_json(const Program& program, const Budgets& budgets,
                                  const std::string& plan_hash);

/// "f0", "b2", "s", "init": phase and micro-batch as the recordings of DeepSpeed name them.
std::string phase_name(Phase phase, int micro_batch);

/// How `model.fit` chose the number of layers.
nlohmann::ordered_json print_json(const Fit& fit);

}  // namespace shardmark
