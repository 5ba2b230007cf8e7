// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/optimizer/sketch.hpp>
#include <core/read_back.hpp>
#include <miniapp/prove/update_proof.hpp>

namespace shardmark {
namespace {
constexpr std::int64_t proved_elems = 1 << 18;
}

// The states of the run are only read: the kernel, which writes moments, works on copies.
UpdateSketches sketch_updates(const Context& context, std::span<const UpdatedRange> ranges,
                              const std::optional<AdamWStep>& step) {
  UpdateSketches sketches;
  const Kokkos::View<float*, Space::memory_space> scratch("sketch_updates", 3 * proved_elems);
  float *const param = scratch.data(), *const m = param + proved_elems, *const v = m + proved_elems;
  for (const UpdatedRange& r : ranges)
    for (std::int64_t at = 0; at < r.elems; at += proved_elems) {
      const std::int64_t n = std::min(proved_elems, r.elems - at), first = r.first_elem + at;
      copy_to_device(context.space, param, r.before + at,
                     static_cast<std::size_t>(n) * sizeof(float));
      sketch_state(context, param, n, first, sketches.before.sums);
      if (step) {
        convert(context, n, Stored(m), ConstStored(r.momentum + at));
        convert(context, n, Stored(v), ConstStored(r.variance + at));
        adamw_apply(context, n, param, m, v, *step);
      }
      sketch_state(context, param, n, first, sketches.expected.sums);
      sketch_state(context, r.master + at, n, first, sketches.after.sums);
    }
  return sketches;
}

}  // namespace shardmark
