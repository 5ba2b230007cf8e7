// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/numeric/half.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/checkpoint/kept_states.hpp>

namespace shardmark {
namespace {

// Elements that are copied as one. Of parameters that have a master on this rank, its number.
struct HeldPart {
  WantedElements where;
  std::optional<std::size_t> master;
};

std::int64_t bytes_of(const WantedElements& w) {
  return w.elems * dtype_bytes(w.dtype);
}
std::int64_t end_of(const WantedElements& w) {
  return w.first_elem + w.elems;
}

WantedElements part_of(const WantedElements& w, std::int64_t first, std::int64_t end) {
  WantedElements part = w;
  part.first_elem = first;
  part.elems = end - first;
  part.into += (first - w.first_elem) * dtype_bytes(w.dtype);
  return part;
}

// Masters and moments as they are, and then the parameters, cut where their masters begin and end.
// Calls before and after a step return parts with the same numbers.
std::vector<HeldPart> parts_of(const std::vector<WantedElements>& wanted) {
  std::vector<HeldPart> parts;
  std::vector<std::size_t> masters;
  for (const WantedElements& w : wanted) {
    if (w.state == State::param) continue;
    if (w.state == State::master && w.dtype == Dtype::fp32) masters.push_back(parts.size());
    parts.push_back({w, {}});
  }
  std::ranges::sort(masters, [&](std::size_t a, std::size_t b) {
    return parts[a].where.first_elem < parts[b].where.first_elem;
  });
  for (const WantedElements& w : wanted) {
    if (w.state != State::param) continue;
    std::int64_t at = w.first_elem;
    for (const std::size_t i : masters) {
      const WantedElements master = parts[i].where;
      const std::int64_t first = std::max(at, master.first_elem);
      const std::int64_t end = std::min(end_of(w), end_of(master));
      if (first >= end) continue;
      if (at < first) parts.push_back({part_of(w, at, first), {}});
      parts.push_back({part_of(w, first, end), i});
      at = end;
    }
    if (at < end_of(w)) parts.push_back({part_of(w, at, end_of(w)), {}});
  }
  return parts;
}

constexpr std::int64_t copied_elems = 1 << 16;
using CopiedPiece = std::array<float, copied_elems>;  // or as many values of 16 bits

// Whether parameters are their masters, rounded to nearest.
bool follows(const WantedElements& param, const WantedElements& master) {
  if (param.dtype != Dtype::fp32 && param.dtype != Dtype::bf16 && param.dtype != Dtype::fp16)
    return false;
  const auto values = std::make_unique_for_overwrite<CopiedPiece>(),
             rounded = std::make_unique_for_overwrite<CopiedPiece>(),
             have = std::make_unique_for_overwrite<CopiedPiece>();
  const std::int64_t size = dtype_bytes(param.dtype), skip = param.first_elem - master.first_elem;
  for (std::int64_t at = 0; at < param.elems; at += copied_elems) {
    const std::int64_t n = std::min(copied_elems, param.elems - at);
    fetch(master.far, values->data(), master.into + (skip + at) * std::int64_t{sizeof(float)},
          n * std::int64_t{sizeof(float)});
    round_values(values->data(), n, param.dtype, rounded->data());
    fetch(param.far, have->data(), param.into + at * size, n * size);
    if (std::memcmp(rounded->data(), have->data(), static_cast<std::size_t>(n * size)) != 0)
      return false;
  }
  return true;
}

// Fills `w` piece by piece with what `make` writes.
void put_pieces(const WantedElements& w,
                const std::function<void(std::int64_t at, std::int64_t n, void* into)>& make) {
  const auto piece = std::make_unique_for_overwrite<CopiedPiece>();
  const std::int64_t size = dtype_bytes(w.dtype);
  for (std::int64_t at = 0; at < w.elems; at += copied_elems) {
    const std::int64_t n = std::min(copied_elems, w.elems - at);
    make(at, n, piece->data());
    put(w.far, w.into + at * size, piece->data(), n * size);
  }
}

// The elements that a rank has of a state, as the longest runs.
std::vector<std::pair<std::int64_t, std::int64_t>> runs_of(const Program& program, State state) {
  std::vector<std::pair<std::int64_t, std::int64_t>> pieces, runs;
  for (const StatePiece& p : program.states)
    if (p.state == state) pieces.emplace_back(p.first_elem, p.first_elem + p.elems);
  std::ranges::sort(pieces);
  for (const auto& [first, end] : pieces)
    if (!runs.empty() && runs.back().second == first)
      runs.back().second = end;
    else
      runs.emplace_back(first, end);
  return runs;
}

// Returns the part of the elements [first, end) that lies in `w`. It has no elements if they do not
// meet.
WantedElements meet(const WantedElements& w, std::int64_t first, std::int64_t end) {
  first = std::max(first, w.first_elem);
  return part_of(w, first, std::max(first, std::min(end, end_of(w))));
}

}  // namespace

bool can_leave_moments_out(const Program& program) {
  if (traits(program.optimizer).kernel != Kernel::adamw || !program.copies.empty()) return false;
  for (const Param& p : program.model.params)
    if (!p.updated()) return false;
  for (const StatePiece& p : program.states)
    if (p.state != State::param && program.slots[p.slot].dtype != Dtype::fp32) return false;
  const auto masters = runs_of(program, State::master);
  return !masters.empty() && masters == runs_of(program, State::momentum) &&
         masters == runs_of(program, State::variance);
}

std::int64_t KeptStates::bytes_to_keep(const Program& program, const Executor& executor,
                                       bool with_moments) {
  std::int64_t bytes = 0;
  for (const HeldPart& part : parts_of(wanted_states(program, executor)))
    if (!part.master && (with_moments || !is_moment(part.where.state)))
      bytes += bytes_of(part.where);
  return bytes;
}

void KeptStates::keep(const Program& program, const Executor& executor, bool with_moments) {
  const std::vector<HeldPart> parts = parts_of(wanted_states(program, executor));
  for (const HeldPart& part : parts) {
    const WantedElements& w = part.where;
    Kept kept{w};
    if (!with_moments && is_moment(w.state)) {
      kept.source = Source::zero;
    } else if (part.master && follows(w, parts[*part.master].where)) {
      kept.source = Source::master;
      kept.master = *part.master;
    } else {
      kept.bytes =
          std::make_unique_for_overwrite<std::byte[]>(static_cast<std::size_t>(bytes_of(w)));
      fetch(w.far, kept.bytes.get(), w.into, bytes_of(w));
      bytes_ += bytes_of(w);
    }
    kept_.push_back(std::move(kept));
  }
}

// Parameters that are their own masters have no other entry, and those that have one are left out.
std::vector<UpdatedRange> KeptStates::updated(const Program& program,
                                              const Executor& executor) const {
  std::vector<UpdatedRange> ranges;
  const std::vector<HeldPart> parts = parts_of(wanted_states(program, executor));
  std::vector<WantedElements> momenta, variances;
  for (const HeldPart& part : parts) {
    if (part.where.state == State::momentum) momenta.push_back(part.where);
    if (part.where.state == State::variance) variances.push_back(part.where);
  }
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const WantedElements& master = parts[i].where;
    if (is_moment(master.state) || parts[i].master || master.dtype != Dtype::fp32) continue;
    for (const WantedElements& momentum : momenta) {
      const WantedElements m = meet(momentum, master.first_elem, end_of(master));
      if (m.elems == 0) continue;
      for (const WantedElements& variance : variances) {
        const WantedElements v = meet(variance, m.first_elem, end_of(m));
        if (v.elems == 0) continue;
        const auto at = [&](const WantedElements& w, const std::byte* data) {
          return reinterpret_cast<const float*>(data) + (v.first_elem - w.first_elem);
        };
        ranges.push_back({v.first_elem, v.elems, at(master, kept_[i].bytes.get()),
                          at(master, master.into), at(momentum, momentum.into),
                          at(variance, variance.into)});
      }
    }
  }
  return ranges;
}

std::string KeptStates::strayed(const Program& program, const Executor& executor) const {
  const std::vector<HeldPart> parts = parts_of(wanted_states(program, executor));
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const WantedElements& w = parts[i].where;
    if (kept_[i].source == Source::master && w.dtype == Dtype::fp32 &&
        !follows(w, parts[kept_[i].master].where))
      return fmt::format("among the parameters {} to {}, some are not their masters' copies",
                         w.first_elem, end_of(w) - 1);
  }
  return {};
}

// How the sums are made moves no state, so both programs have the same pieces.
void KeptStates::restore(const Program& program, const Executor& executor) {
  const std::vector<HeldPart> parts = parts_of(wanted_states(program, executor));
  for (std::size_t i = 0; i < std::max(parts.size(), kept_.size()); ++i) {
    const bool same = i < parts.size() && i < kept_.size() &&
                      parts[i].where.state == kept_[i].where.state &&
                      parts[i].where.first_elem == kept_[i].where.first_elem &&
                      parts[i].where.elems == kept_[i].where.elems &&
                      parts[i].where.dtype == kept_[i].where.dtype;
    if (!same) throw PlanError("replay: the plan under ordered reductions holds other states");
    const WantedElements& w = parts[i].where;
    switch (const Kept& kept = kept_[i]; kept.source) {
      case Source::copied: put(w.far, w.into, kept.bytes.get(), bytes_of(w)); break;
      case Source::zero:
        put_pieces(w, [&](std::int64_t, std::int64_t n, void* into) {
          std::memset(into, 0, static_cast<std::size_t>(n * dtype_bytes(w.dtype)));
        });
        break;
      case Source::master: {
        const Kept& master = kept_[kept.master];
        const auto* values = reinterpret_cast<const float*>(master.bytes.get()) + w.first_elem -
                             master.where.first_elem;
        put_pieces(w, [&](std::int64_t at, std::int64_t n, void* into) {
          round_values(values + at, n, w.dtype, into);
        });
        break;
      }
    }
  }
  kept_.clear();
}

}  // namespace shardmark
