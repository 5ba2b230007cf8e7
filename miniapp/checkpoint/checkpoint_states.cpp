// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>

#include <core/error.hpp>
#include <core/read_back.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>

namespace shardmark {
namespace {

std::vector<StatePiece> pieces_of(const Program& program, State state) {
  std::vector<StatePiece> pieces;
  std::ranges::copy_if(program.states, std::back_inserter(pieces),
                       [&](const StatePiece& p) { return p.state == state; });
  return pieces;
}

std::size_t param_at(const ModelShape& model, std::int64_t first_elem) {
  const auto after = std::ranges::upper_bound(model.params, first_elem, {}, &Param::first_elem);
  return static_cast<std::size_t>(after - model.params.begin()) - 1;
}
const Param& param_of(const Program& program, const StatePiece& piece) {
  return program.model.params[param_at(program.model, piece.first_elem)];
}

// By parameter: how many elements of frozen parameters come before it.
std::vector<std::int64_t> frozen_before(const ModelShape& model) {
  std::vector<std::int64_t> before;
  std::int64_t elems = 0;
  for (const Param& p : model.params) {
    before.push_back(elems);
    if (!p.updated()) elems += p.elems;
  }
  return before;
}

// The pieces of a state, and in their place those of the master where the optimizer has no such
// state: Muon keeps no variance of matrices. Checkpoints hold zeros there.
std::vector<StatePiece> stored_pieces(const Program& program, State state) {
  std::vector<StatePiece> pieces = pieces_of(program, state);
  for (const StatePiece& p : program.states)
    if (state == State::variance && p.state == State::master && param_of(program, p).hidden_matrix)
      pieces.push_back(p);
  return pieces;
}
constexpr FarMemory zeros = {[](void* to, const void*, std::int64_t bytes) {
                               std::memset(to, 0, static_cast<std::size_t>(bytes));
                             },
                             nullptr};

std::byte* address(const Executor& executor, const StatePiece& piece) {
  const Bound slot = executor.slot(piece.slot);
  return slot.as<std::byte>() + piece.offset * dtype_bytes(slot.dtype);
}

// Uses the program's one compute stream, so the copy comes after all work that was launched before.
constexpr FarMemory device_memory = {
    [](void* to, const void* from, std::int64_t bytes) {
      copy_to_host(Space(), to, from, static_cast<std::size_t>(bytes));
    },
    [](void* to, const void* from, std::int64_t bytes) {
      copy_to_device(Space(), to, from, static_cast<std::size_t>(bytes));
    }};

// Null if the host reads and writes the slot directly.
const FarMemory* far_memory_of(const Slot& slot) {
  return device_is_host || slot.tier == Tier::host ? nullptr : &device_memory;
}

}  // namespace

std::vector<ElementRange> among_stored(const ModelShape& model,
                                       const std::vector<ElementRange>& ranges) {
  const std::vector<std::int64_t> before = frozen_before(model);
  std::vector<ElementRange> stored;
  for (const ElementRange& range : ranges)
    for (std::int64_t done = 0, n = 0; done < range.elems; done += n) {
      const std::size_t id = param_at(model, range.first + done);
      const Param& p = model.params[id];
      n = std::min(range.elems - done, p.first_elem + p.elems - range.first - done);
      const std::int64_t first = range.first + done - before[id];
      if (!stored.empty() && stored.back().first + stored.back().elems == first)
        stored.back().elems += n;
      else
        stored.push_back({first, n});
    }
  return stored;
}

std::vector<StateSource> state_sources(const Program& program, const Executor& executor,
                                       const std::vector<ElementRange>& owned) {
  std::vector<StateSource> sources;
  for (State state : stored_states(program.precision.model, program.optimizer)) {
    auto pieces = stored_pieces(program, state);
    std::ranges::sort(pieces, {}, &StatePiece::first_elem);
    StateSource source{state, Dtype::fp32, {}};
    for (const ElementRange& range : owned) {
      auto it = std::ranges::upper_bound(pieces, range.first, {}, &StatePiece::first_elem);
      for (std::int64_t done = 0; done < range.elems; ++it) {
        const StatePiece& p = *std::prev(it);
        const std::int64_t skip = range.first + done - p.first_elem;
        const std::int64_t n = std::min(range.elems - done, p.elems - skip);
        if (it == pieces.begin() || skip < 0 || n < 1)
          throw PlanError("checkpoint: a rank does not hold all of its own states");
        const Slot& slot = program.slots[p.slot];
        const bool held = p.state == state;
        source.slices.push_back({address(executor, p) + skip * dtype_bytes(slot.dtype), n,
                                 held ? far_memory_of(slot) : &zeros});
        if (held && state != State::param && slot.dtype != source.dtype)
          source.slices.back().narrow = slot.dtype;
        done += n;
      }
    }
    if (state == State::param) source.dtype = program.precision.model;
    sources.push_back(std::move(source));
  }
  return sources;
}

std::vector<StateSource> staging_slots(const Program& program, const Executor& executor) {
  std::vector<StateSource> slots;
  for (State state : stored_states(program.precision.model, program.optimizer)) {
    const Bound slot = executor.slot(executor.find_slot(checkpoint_slot(state)));
    slots.push_back({state, slot.dtype, {{slot.as<std::byte>(), slot.elems}}});
  }
  return slots;
}

void copy_aside(const std::vector<StateSource>& sources, const std::vector<StateSource>& staging) {
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const std::int64_t size = dtype_bytes(sources[i].dtype);
    auto* into = const_cast<std::byte*>(staging[i].slices[0].data);  // the executor's own memory
    for (const StateSlice& s : sources[i].slices) {
      fetch_elements(s, 0, s.elems, sources[i].dtype, into);
      into += s.elems * size;
    }
  }
}

std::vector<WantedElements> wanted_states(const Program& program, const Executor& executor) {
  // fp32 parameters may be their own master; one read then fills both.
  const auto params = pieces_of(program, State::param);
  const auto is_param = [&](const StatePiece& p) {
    return p.state == State::master && std::ranges::any_of(params, [&](const StatePiece& param) {
             return param.slot == p.slot;
           });
  };
  std::vector<WantedElements> wanted;
  const std::vector<std::int64_t> before = frozen_before(program.model);
  const auto want = [&](const StatePiece& p) {
    const Slot& slot = program.slots[p.slot];
    const std::size_t id = param_at(program.model, p.first_elem);
    if (program.model.params[id].updated())
      wanted.push_back({p.state, p.first_elem - before[id], p.elems, slot.dtype,
                        address(executor, p), far_memory_of(slot)});
  };
  for (const StatePiece& p : program.states)
    if (!is_param(p)) want(p);
  for (const StatePiece& p : program.copies) want(p);
  return wanted;
}

}  // namespace shardmark
