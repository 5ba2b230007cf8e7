// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/optimizer/init.hpp>
#include <core/system_pages.hpp>
#include <miniapp/execute/slot_memory.hpp>
#include <miniapp/tools/calibrate/cold_memory.hpp>

namespace shardmark {
namespace {

// Writes values between -2 and 2. Most of it is copied, because drawing values takes longer than
// writing them.
void write_values(const Context& ctx, Stored dst, std::int64_t elems) {
  constexpr std::int64_t drawn = std::int64_t{1} << 20;
  constexpr std::uint64_t seed = 1;
  init_param(ctx, dst, std::min(elems, drawn), 0, 0, Init::uniform, 1.0, seed);
  for (std::int64_t at = drawn; at < elems; at += drawn)
    convert(ctx, std::min(drawn, elems - at), dst.at(at), dst);
  fence(ctx.space, "shardmark::calibrate");
}

}  // namespace

ColdMemory::ColdMemory(const Context& ctx, Dtype values, std::int64_t bytes)
    : buffer_(Tier::device, bytes, "shardmark::device::staging::calibrate") {
  prefer_huge_pages(Tier::device, buffer_.data<std::byte>(), bytes);
  write_values(ctx, {values, buffer_.data<std::byte>()}, bytes / dtype_bytes(values));
}

void* ColdMemory::take(std::int64_t bytes) {
  const std::int64_t page = system_page_bytes();
  bytes = (bytes + page - 1) / page * page;
  if (at_ + bytes > buffer_.bytes()) at_ = 0;
  void* memory = buffer_.data<std::byte>() + at_;
  at_ += bytes;
  return memory;
}

}  // namespace shardmark
