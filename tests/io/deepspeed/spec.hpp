// SPDX-License-Identifier: Apache-2.0
// Reads small DeepSpeed configs.
#pragma once

#include <fmt/format.h>

#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::spec {

// Reads a config with additional keys at a stage. `zero` contains additional keys of
// zero_optimization and begins with a comma.
inline ZeroSpec read(int stage, const std::string& extra, const std::string& zero = "") {
  Origin origin("d.json");
  const std::string text =
      fmt::format("{{\"train_batch_size\": 4, \"zero_optimization\": {{\"stage\": {}{}}}{}{}}}",
                  stage, zero, extra.empty() ? "" : ", ", extra);
  return read_deepspeed(origin, parse_json(text, "d.json", JsonRules::deck), Schedule::deepspeed);
}

inline std::string refusal(int stage, const std::string& extra, const std::string& zero = "") {
  return message_of<DeckError>([&] { read(stage, extra, zero); });
}

inline constexpr const char* bf16 = R"("bf16": {"enabled": true})";
inline constexpr const char* fp16 = R"("fp16": {"enabled": true})";
inline constexpr const char* accum32 = R"(, "data_types": {"grad_accum_dtype": "fp32"})";

}  // namespace shardmark::test::spec
