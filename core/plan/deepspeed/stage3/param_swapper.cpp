// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deepspeed/stage3/param_swapper.hpp>
#include <core/plan/write/state_writer.hpp>

namespace shardmark {
namespace {
constexpr const char* section = "deepspeed.zero_optimization.offload_param";
}

int ParamSwapper::add(int param, const std::string& name, std::int64_t elems) {
  if (elems > spec_.buffer_size)
    throw DeckError(
        fmt::format("{}: {}.buffer_size = {}: a rank's part of {} has {} elements: give at "
                    "least as many",
                    deck_.path, section, spec_.buffer_size, name, elems));
  const int slot =
      w_.slot("param_file." + name, Category::param, dtype_, aligned(elems), Tier::nvme);
  files_[param] = {name, slot, elems};
  return slot;
}

void ParamSwapper::begin(const std::vector<std::int64_t>& write_back) {
  if (!active()) return;
  buffer_elems_ = aligned(spec_.buffer_size);
  buffers_ = w_.slot("param_swap", Category::staging, dtype_,
                     checked_mul(buffer_elems_, spec_.buffer_count, "offload_param: buffers"),
                     Tier::host, {}, true);
  acquire_zeroed(w_, buffers_);
  if (write_back.empty()) return;
  std::int64_t elems = 0;
  for (std::int64_t shard : write_back)
    elems = checked_add(elems, aligned(shard), "offload_param: the buffer that is written back");
  pool_ = w_.slot("param_write_back", Category::staging, dtype_, elems, Tier::host, {}, true);
  acquire_zeroed(w_, pool_);
}

// DeepSpeed takes the buffer that was freed last, but which one it takes has no effect.
int ParamSwapper::take_buffer(int param, Buffered& buffered) {
  std::vector<bool> taken(static_cast<std::size_t>(spec_.buffer_count));
  for (const auto& [other, buffer] : buffered) taken[static_cast<std::size_t>(buffer)] = true;
  for (std::size_t i = 0; i < taken.size(); ++i)
    if (!taken[i]) return buffered[param] = static_cast<int>(i);
  throw DeckError(
      fmt::format("{}: {}.buffer_count = {}: {} would be one more parameter in use at a time that "
                  "is in a file, "
                  "where DeepSpeed ends a run: give more, or smaller stage3_prefetch_bucket_size, "
                  "stage3_max_live_parameters and stage3_max_reuse_distance",
                  deck_.path, section, spec_.buffer_count, files_.at(param).name));
}

void ParamSwapper::bring_in(int param, Buffered& buffered) {
  if (!is_file(param) || buffered.contains(param)) return;
  const int slot = files_.at(param).slot;
  w_.copy(w_.read(slot), part(take_buffer(param, buffered), w_[slot].elems));
}

Operand ParamSwapper::shard(int param, const Buffered& buffered) const {
  return part(buffered.at(param), files_.at(param).elems);
}

void ParamSwapper::write_first(int param, Buffered& buffered) {
  const int slot = files_.at(param).slot;
  w_.acquire(slot);
  w_.copy(part(buffered.at(param), w_[slot].elems), w_.write(slot));
  buffered.erase(param);
}

Operand ParamSwapper::place_to_write(int param) {
  const File& file = files_.at(param);
  const Operand place = w_.update(pool_, pooled_, file.elems);
  pooled_ += aligned(file.elems);
  to_write_.push_back(param);
  return place;
}

void ParamSwapper::write_back() {
  std::int64_t at = 0;
  for (int param : to_write_) {
    const int slot = files_.at(param).slot;
    w_.copy(w_.read(pool_, at, w_[slot].elems), w_.write(slot));
    at += w_[slot].elems;
  }
  to_write_.clear();
  pooled_ = 0;
}

}  // namespace shardmark
