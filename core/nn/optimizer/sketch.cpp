// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <core/nn/kernels/rows.hpp>
#include <core/nn/optimizer/sketch.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t elems_at_a_time = 512;
constexpr std::int64_t most_teams = 4096;

// What an element adds, and to which bucket.
struct Share {
  float value;
  std::int32_t bucket;
};
template<class T>
using Scratch =
    Kokkos::View<T*, Space::scratch_memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;

// A team processes a run of elements. Its threads prepare some of them together. Then each thread
// adds those of its buckets in their order, so that no addition depends on timing; a GPU has a
// thread for each bucket.
struct SketchTeam {
  const float* p;
  std::int64_t elems, first_elem, per_team;
  double* sums;  // [teams][buckets]

  static std::size_t scratch_bytes() { return Scratch<Share>::shmem_size(elems_at_a_time); }

  KOKKOS_INLINE_FUNCTION void operator()(const kernel::Team& team) const {
    const Scratch<Share> shares(team.team_scratch(0), elems_at_a_time);
    double* of_team = sums + std::int64_t{team.league_rank()} * sketch_buckets;
    const std::int64_t begin = team.league_rank() * per_team;
    const std::int64_t end = elems < begin + per_team ? elems : begin + per_team;
    for (std::size_t b = team.team_rank(); b < sketch_buckets; b += team.team_size())
      of_team[b] = 0;
    for (std::int64_t first = begin; first < end; first += elems_at_a_time) {
      const std::int64_t count = end - first < elems_at_a_time ? end - first : elems_at_a_time;
      Kokkos::parallel_for(Kokkos::TeamThreadRange(team, count), [&](std::int64_t i) {
        const std::uint64_t random = sketch_random(first_elem + first + i);
        shares(i) = {static_cast<float>(sketch_signed(random, p[first + i])),
                     static_cast<std::int32_t>(sketch_bucket(random))};
      });
      team.team_barrier();
      for (std::size_t b = team.team_rank(); b < sketch_buckets; b += team.team_size()) {
        double sum = of_team[b];
        for (std::int64_t i = 0; i < count; ++i)
          if (shares(i).bucket == static_cast<std::int32_t>(b)) sum += shares(i).value;
        of_team[b] = sum;
      }
      team.team_barrier();
    }
  }
};

}  // namespace

// Teams would make one thread of a host do the work of 64.
void sketch_state(const Context& ctx, const float* p, std::int64_t elems, std::int64_t first_elem,
                  std::span<double, sketch_buckets> sums) {
  if constexpr (!kernel::rows_are_warps) {
    fence(ctx.space, "shardmark::sketch_state");
    sketch_on_host(p, elems, first_elem, sums);
  } else {
    const std::int64_t teams =
        std::clamp<std::int64_t>(elems / (8 * elems_at_a_time), 1, most_teams);
    const Kokkos::View<double*, Space::memory_space> parts(
        "sketch_state", static_cast<std::size_t>(teams) * sketch_buckets);
    const SketchTeam body{p, elems, first_elem, (elems + teams - 1) / teams, parts.data()};
    Kokkos::parallel_for(
        "shardmark::sketch_state",
        kernel::team_policy(ctx, teams, static_cast<int>(sketch_buckets), 1,
                            SketchTeam::scratch_bytes(), body, Kokkos::ParallelForTag()),
        body);
    fence(ctx.space, "shardmark::sketch_state");
    const auto all = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), parts);
    for (std::size_t i = 0; i < all.size(); ++i) sums[i % sketch_buckets] += all(i);
  }
}

}  // namespace shardmark
