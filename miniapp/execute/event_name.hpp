// SPDX-License-Identifier: Apache-2.0
// The names of a plan's events in drawings and traces.
#pragma once

#include <string>

#include <core/plan/plan.hpp>

namespace shardmark {

/// "forward block0.attn.qkv", "copy fetch.1", "acquire x.block0".
std::string event_name(const Program& program, const Event& event);

/// Whether the event only moves or converts data.
bool moves_data(const Event& event);

}  // namespace shardmark
