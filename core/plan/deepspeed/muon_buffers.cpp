// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/plan/deepspeed/muon_buffers.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t most_kept_bytes = std::int64_t{256} << 20;

}  // namespace

int SizedSlots::slot(const std::string& name, Category category, Dtype dtype, std::int64_t elems) {
  const auto [it, fresh] = slots_.try_emplace({name, elems}, no_slot);
  if (fresh)
    it->second = w_.slot(name + "." + std::to_string(slots_.size()), category, dtype, elems);
  return it->second;
}

GatherBuffers::Buffers GatherBuffers::of(const Size& size) {
  const auto [it, fresh] = buffers_.try_emplace(size);
  if (fresh) {
    const auto declare = [&](const char* name, std::int64_t elems) {
      return w_.slot(name + std::to_string(buffers_.size()), Category::bucket, type_, elems,
                     Tier::device, recorded::muon_gathers);
    };
    it->second = {declare("muon_sent.", size.row()),
                  declare("muon_gathered.", size.row() * c_.world())};
  }
  return it->second;
}

void GatherBuffers::keep_after(const std::vector<Size>& gathers) {
  if (c_.world() == 1) return;
  const auto bytes_of = [&](const Size& size) {
    return (c_.world() + 1) * size.row() * dtype_bytes(type_);
  };
  std::vector<Size> kept;  // those that were used last come last
  std::int64_t held = 0;
  for (const Size& size : gathers) {
    if (const auto it = std::ranges::find(kept, size); it != kept.end()) {
      std::rotate(it, it + 1, kept.end());
      continue;
    }
    const std::int64_t bytes = bytes_of(size);
    if (bytes > most_kept_bytes) continue;
    for (; held + bytes > most_kept_bytes; kept.erase(kept.begin())) held -= bytes_of(kept.front());
    kept.push_back(size);
    held += bytes;
  }
  for (const Size& size : kept) {
    const Buffers b = of(size);
    for (const int slot : {b.local, b.gathered}) w_.acquire(slot);
  }
}

}  // namespace shardmark
