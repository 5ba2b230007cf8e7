// SPDX-License-Identifier: Apache-2.0
// Which buffers DeepSpeed keeps from one gather of Muon's matrices to the next: those that were
// used last, as many as fit into 256 MiB. Gathers of equal size share their buffers.
//
// Source: DeepSpeed 0.19's _muon_allgather_buffers in stage_1_and_2.py and stage3.py.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace shardmark {

/// Follows the gathers, each of which is of a `Size`.
template<class Size>
class KeptBuffers {
 public:
  void use(const Size& size, std::int64_t bytes) {
    if (const auto it = std::ranges::find(kept_, size, &Kept::first); it != kept_.end()) {
      std::rotate(it, it + 1, kept_.end());
      return;
    }
    if (bytes > most_bytes) return;
    for (; bytes_ + bytes > most_bytes; kept_.erase(kept_.begin())) bytes_ -= kept_.front().second;
    kept_.emplace_back(size, bytes);
    bytes_ += bytes;
  }
  std::vector<Size> sizes() const {
    std::vector<Size> list;
    for (const Kept& k : kept_) list.push_back(k.first);
    return list;
  }

 private:
  using Kept = std::pair<Size, std::int64_t>;
  static constexpr std::int64_t most_bytes = std::int64_t{256} << 20;
  std::vector<Kept> kept_;  // those that were used last come last
  std::int64_t bytes_ = 0;
};

}  // namespace shardmark
