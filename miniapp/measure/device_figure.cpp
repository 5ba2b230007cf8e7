// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/measure/device_figure.hpp>

namespace shardmark {

std::optional<DeviceFigure> device_figure(const DeviceLooks& looks, std::int64_t ledger_bytes) {
  if (!looks.start || !looks.ready || !looks.end) return std::nullopt;
  const auto beyond = [](std::int64_t a, std::int64_t b) {
    return std::max<std::int64_t>(0, a - b);
  };
  DeviceFigure f;
  f.context_bytes = looks.start->bytes;
  f.libraries_bytes = beyond(looks.ready->bytes, f.context_bytes);
  f.in_use_bytes = looks.end->bytes;
  f.excess_bytes = beyond(f.in_use_bytes, f.context_bytes + f.libraries_bytes + ledger_bytes);
  f.ranks = looks.end->ranks;
  return f;
}

std::string describe(const DeviceFigure& f, std::int64_t allowance_bytes) {
  return fmt::format(
      "device in use: {}: {} before the run (context), {} of communicators and libraries; {} "
      "beyond these and the ledger ({})",
      human_bytes(f.in_use_bytes), human_bytes(f.context_bytes), human_bytes(f.libraries_bytes),
      human_bytes(f.excess_bytes),
      f.judged() ? fmt::format("allowance {}", human_bytes(allowance_bytes))
                 : fmt::format("shared by {} ranks: not judged", f.ranks));
}

}  // namespace shardmark
