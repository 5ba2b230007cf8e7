// SPDX-License-Identifier: Apache-2.0
// Rules of offload: it changes no bit of the training (`ordered`); it copies what DeepSpeed copies,
// computed here from DeepSpeed's rules; predictions equal measurements in all tiers and between
// them; an emulated link is never faster than its bandwidth.
#include <filesystem>

#include <gtest/gtest.h>

#include <core/exact_sum.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/plan/partition/flat_groups.hpp>
#include <core/plan/partition/sub_groups.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::offload_run_test {
namespace {

struct Case {
  const char* name;
  int stage;
  bool optimizer, params;
  double ratio = 1;
  bool nvme = false, pipeline_read = false, pipeline_write = false;
  std::int64_t max_in_cpu =
      -1;  // parameters are in files, too, except so many elements of all ranks
};
constexpr Case cases[] = {
    {"stage 1", 1, true, false},
    {"stage 2", 2, true, false},
    {"stage 3, optimizer", 3, true, false},
    {"stage 3, half of the optimizer", 3, true, false, 0.5},
    {"stage 3, parameters", 3, false, true},
    {"stage 3, both", 3, true, true},
    {"stage 3, files", 3, true, false, 1, true},
    {"stage 3, files ahead", 3, true, true, 1, true, true},
    {"stage 3, files behind", 3, true, false, 0.5, true, false, true},
    {"stage 3, files ahead and behind", 3, true, true, 1, true, true, true},
    {"stage 3, all in files", 3, true, true, 1, true, false, false, 0},
    {"stage 3, parameters in files", 3, false, true, 1, false, false, false, 20'000}};

// So small that the sub-groups of the small model, and some of its gradients, go to files, and
// others do not.
constexpr std::int64_t least_bytes = 4096, alignment_bytes = 512;

Deck deck_of(const Case& c, std::int64_t accumulation, Dtype dtype, bool offloaded) {
  Deck d = small_deck(c.stage, 2 * world() * accumulation, accumulation);
  d.run.reductions = Reductions::ordered;
  set_precision(d, dtype, dtype);
  d.zero.knobs.sub_group_size = 9000;
  if (!offloaded) return d;
  d.zero.offload_param.enabled = c.params;
  OffloadSpec& o = d.zero.offload_optimizer;
  o.enabled = c.optimizer;
  o.ratio = c.ratio;
  o.nvme = c.nvme;
  o.nvme_path = std::filesystem::temp_directory_path();
  o.pipeline_read = c.pipeline_read;
  o.pipeline_write = c.pipeline_write;
  o.buffer_count = 12;
  OffloadSpec& p = d.zero.offload_param;
  p.nvme = c.max_in_cpu >= 0;
  p.nvme_path = o.nvme_path;
  p.max_in_cpu = c.max_in_cpu / world();
  p.buffer_count = 24;
  p.buffer_size = 20'000;
  d.zero.aio.least_bytes = least_bytes;
  d.zero.aio.alignment_bytes = alignment_bytes;
  return d;
}

struct Outcome {
  std::vector<double> losses;
  StateHashes hashes;
  LinkVolume step{};
};

Outcome run(const Deck& deck) {
  Training t(deck, MPI_COMM_WORLD);
  train_as_predicted(t, 3);
  EXPECT_EQ(t.executor().carried(), copies_of_runs(t.program(), t.planned_runs()));
  return {t.losses, t.hashes(), steady_link_volume(t.program())};
}

std::int64_t rank() {
  int r = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &r);
  return r;
}

using Bytes = EnumArray<Direction, std::int64_t>;

// Stages 1 and 2 copy the owned slices to the host in fp32, and the whole partition to the device.
// With several micro-batches, stage 2 stores whole gradients of all parameters in the partition in
// each, and fetches them in all but the first.
Bytes flat_bytes(const Deck& d, const Program& p, std::int64_t accumulation) {
  const std::int64_t size = dtype_bytes(p.precision.model);
  const FlatGroups flat(p.model, d.zero.knobs, size, p.world);
  std::int64_t owned = 0, touching = 0;
  for (int id = 0; id < static_cast<int>(p.model.params.size()); ++id) {
    const std::int64_t own = flat.owned(id, p.rank).elems;
    owned += own;
    if (own > 0) touching += p.model.params[id].elems;
  }
  Bytes b{4 * owned, size * p.partition.per_rank};
  if (p.stage == 2 && accumulation > 1) {
    b[0] += size * touching * accumulation;
    b[1] += size * touching * (accumulation - 1);
  }
  return b;
}

constexpr bool is_file(std::int64_t elems) {
  return 4 * elems >= least_bytes;
}

// A sub-group in files: master and moments, and of each gradient the part that is large enough and
// aligned for a file. All of it is read once and written once.
std::int64_t disk_bytes(const SubGroups& groups, const Program& p, const Case& c) {
  std::int64_t bytes = 0;
  for (const SubGroup& group : groups.groups()) {
    if (!c.nvme || !is_file(group.elems)) continue;
    bytes += 3 * ((4 * group.elems + alignment_bytes - 1) / alignment_bytes * alignment_bytes);
    for (int id : group.params) {
      const std::int64_t real = std::clamp<std::int64_t>(
          p.model.params[id].elems - groups.shard(id) * rank(), 0, groups.shard(id));
      const std::int64_t whole = 4 * real / alignment_bytes * alignment_bytes;
      if (is_file(real) && is_file(whole / 4)) bytes += whole;
    }
  }
  return bytes;
}

// Stage 3 copies the gradients of shards to the host and back in each micro-batch, and in the last
// one to the host in fp32, too. `on_host` is given by sub-group.
Bytes sharded_bytes(const Deck& d, const Program& p, std::int64_t accumulation, const Case& c) {
  const std::int64_t size = dtype_bytes(p.precision.model);
  const SubGroups groups(p.model, d.zero.knobs.sub_group_size, p.world);
  const auto n = static_cast<double>(groups.groups().size());
  Bytes b{};
  for (int id = 0; id < static_cast<int>(p.model.params.size()); ++id) {
    const auto g = static_cast<double>(groups.group_of(id));
    const bool swaps = c.nvme && is_file(groups.groups()[groups.group_of(id)].elems);
    const bool on_host = swaps || (c.optimizer && g >= std::floor((1 - c.ratio) * n));
    const std::int64_t shard = groups.shard(id);
    const std::int64_t real =
        std::clamp<std::int64_t>(p.model.params[id].elems - shard * rank(), 0, shard);
    if (c.optimizer) {
      b[0] += size * real * accumulation + (on_host ? 4 * real : 0);
      b[1] += size * real * accumulation;
    }
    if (on_host && !c.params) b[1] += size * shard;
    if (!on_host && c.params) b[0] += 4 * shard;  // torch sends fp32 and rounds it on the host
  }
  b[2] = b[3] = disk_bytes(groups, p, c);
  return b;
}

// Bytes of shards in files: those of sub-groups beyond max_in_cpu that are large enough.
std::int64_t params_in_files(const Deck& d, const Program& p, const Case& c) {
  if (c.max_in_cpu < 0) return 0;
  const std::int64_t size = dtype_bytes(p.precision.model);
  const SubGroups groups(p.model, d.zero.knobs.sub_group_size, p.world);
  std::int64_t bytes = 0, end = 0;
  for (const SubGroup& group : groups.groups()) {
    end += group.elems;
    for (int id : group.params) {
      const std::int64_t own = size * groups.shard(id);
      if (end > d.zero.offload_param.max_in_cpu && own >= least_bytes)
        bytes += (own + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    }
  }
  return bytes;
}

// Whether a sub-group is updated on the device although others are not.
bool stays_on_device(const Case& c, const Deck& d, const Program& p) {
  if (!c.optimizer || c.stage < 3) return false;
  const SubGroups groups(p.model, d.zero.knobs.sub_group_size, p.world);
  const auto n = static_cast<double>(groups.groups().size());
  for (std::size_t g = 0; g < groups.groups().size(); ++g)
    if (static_cast<double>(g) < std::floor((1 - c.ratio) * n) &&
        !(c.nvme && is_file(groups.groups()[g].elems)))
      return true;
  return false;
}

TEST(Offload, ChangesNoBitAndCopiesWhatDeepSpeedCopies) {
  int compared = 0;
  for (const Case& c : cases)
    for (Dtype dtype : {Dtype::fp32, Dtype::bf16, Dtype::fp16})
      for (std::int64_t accumulation : {1, 3}) {
        const bool files = c.nvme || c.max_in_cpu >= 0;
        if (files && dtype == Dtype::fp16) continue;  // equal to bf16, and files are slow
        SCOPED_TRACE(std::string(c.name) + ", " + std::string(to_string(dtype)) +
                     ", accumulation " + std::to_string(accumulation));
        Deck deck = deck_of(c, accumulation, dtype, true);
        if (compared % 2 == 0) deck.run.memory_mode = MemoryMode::pooled;
        const Outcome with = run(deck);
        const Outcome without = run(deck_of(c, accumulation, dtype, false));
        ++compared;
        EXPECT_EQ(with.losses, without.losses);
        EXPECT_EQ(with.hashes, without.hashes);
        EXPECT_EQ(without.step, LinkVolume{});
        const Program p = build_program(deck, Training::batch_of(deck, MPI_COMM_WORLD), world(),
                                        static_cast<int>(rank()), Profile{});
        Bytes want = c.stage == 3 ? sharded_bytes(deck, p, accumulation, c)
                                  : flat_bytes(deck, p, accumulation);
        // Scalars: the sums of the norm, the clip for parts on the device, and the flag of fp16.
        const auto groups = c.stage == 3 ? SubGroups(p.model, 9000, p.world).groups().size() : 1;
        if (c.optimizer) want[0] += static_cast<std::int64_t>(groups) * exact_sum_limbs * 8;
        if (stays_on_device(c, deck, p)) want[1] += 16;
        if (c.optimizer && c.stage == 3 && dtype == Dtype::fp16) want[1] += 1;
        EXPECT_EQ(with.step[0].bytes, want[0]);
        if (c.params) {  // each shard as often as it is gathered
          EXPECT_GT(with.step[1].bytes, want[1]);
        } else {
          EXPECT_EQ(with.step[1].bytes, want[1]);
        }
        const std::int64_t written = params_in_files(deck, p, c);
        EXPECT_EQ(with.step[3].bytes, want[3] + written);
        if (c.max_in_cpu >= 0) {  // read as often as a shard is gathered, at least once
          EXPECT_GE(with.step[2].bytes, want[2] + written);
          EXPECT_TRUE(written > 0 || world() > 2) << "the rows say nothing";
        } else {
          EXPECT_EQ(with.step[2].bytes, want[2]);
        }
        EXPECT_EQ(with.step[2].copies > 0, c.nvme || written > 0);
      }
  if (rank() == 0)
    printf("%d runs with offload equal those without, on %d ranks\n", compared, world());
}

TEST(Offload, TakesTheStatesOffTheDevice) {
  for (const Case& c : cases) {
    SCOPED_TRACE(c.name);
    const auto states_at = [&](bool offloaded) {
      const Deck deck = deck_of(c, 2, Dtype::bf16, offloaded);
      const Program p = build_program(deck, Training::batch_of(deck, MPI_COMM_WORLD), world(),
                                      static_cast<int>(rank()), Profile{});
      EnumArray<State, EnumArray<Tier, std::int64_t>> bytes{};
      for (const StatePiece& s : p.states)
        bytes[s.state][p.slots[s.slot].tier] += s.elems * dtype_bytes(p.slots[s.slot].dtype);
      return bytes;
    };
    const auto with = states_at(true), without = states_at(false);
    for (std::size_t s = 0; s < enum_size<State>; ++s) {
      EXPECT_EQ(without[s][1], 0);
      EXPECT_EQ(with[s][0] + with[s][1] + with[s][2], without[s][0]);
      if (s > 0 || c.max_in_cpu < 0) {
        EXPECT_EQ(with[s][2] > 0, s > 0 && c.nvme);
      }
      const bool moves = s == 0 ? c.params : c.optimizer && c.ratio == 1;
      if (moves) {
        EXPECT_EQ(with[s][0], 0);
      }
    }
  }
}

// 2P bytes of staging, 4P of each fp32 state and of gradients; all but the moments are page-locked.
TEST(Offload, HostBytesAreThoseOfDeepSpeed) {
  Deck deck = deck_of(cases[1], 1, Dtype::bf16, true);
  const auto host = [&](bool pinned) {
    deck.zero.offload_optimizer.pin_memory = pinned;
    const Program p = build_program(deck, Training::batch_of(deck, MPI_COMM_WORLD), world(),
                                    static_cast<int>(rank()), Profile{});
    std::int64_t largest = 0;
    for (const Param& param : p.model.params) largest = std::max(largest, param.elems);
    const TierFootprint f = footprint(p)[Tier::host];
    const std::int64_t scalars = 16 + exact_sum_limbs * 8;
    EXPECT_EQ(f.peak_bytes, 18 * p.partition.per_rank + 2 * largest + scalars);
    EXPECT_EQ(f.pinned_peak_bytes, pinned ? 10 * p.partition.per_rank + 2 * largest : 0);
  };
  host(true);
  host(false);
}

TEST(LinkQueue, AnEmulatedLinkIsNeverFasterThanItsBandwidth) {
  constexpr double gb_per_s = 2;
  constexpr std::int64_t bytes = std::int64_t{1} << 20;
  LinkQueue link(Space(), gb_per_s);
  std::vector<char> from(bytes, 'x'), to(bytes);
  const std::int64_t before = monotonic_ns();
  std::int64_t done = 0;
  for (int i = 0; i < 8; ++i)
    done = link.start(i % 2 == 0 ? Direction::device_to_host : Direction::host_to_device, bytes,
                      to.data(), from.data())
               .carried.end_ns;
  EXPECT_EQ(from, to);
  const auto least = static_cast<std::int64_t>(8 * bytes / gb_per_s);
  EXPECT_GE(done - before, least);
  std::int64_t busy = 0;
  for (Direction d : {Direction::device_to_host, Direction::host_to_device}) {
    const LinkTimes& t = link.times()[d];
    EXPECT_EQ(t.copies, 4);
    EXPECT_EQ(t.bytes, 4 * bytes);
    busy += t.busy_ns;
  }
  EXPECT_GE(busy, least);
  EXPECT_LE(busy, done - before) << "no time is counted twice";
}

// A run on a slow link takes the time that the link needs and computes the same.
TEST(Offload, OnAnEmulatedLinkTakesAtLeastItsTime) {
  const Deck deck = deck_of(cases[1], 2, Dtype::bf16, true);
  constexpr double gb_per_s = 0.05;
  const StateHashes as_it_is = [&] {
    Training fast(deck, MPI_COMM_WORLD);
    fast.init();
    fast.step();
    return fast.hashes();
  }();
  Training slow(deck, MPI_COMM_WORLD, {}, {}, gb_per_s);
  slow.init();
  slow.executor().reset_times();
  const std::int64_t before = monotonic_ns();
  slow.step();
  const std::int64_t took_ns = monotonic_ns() - before;
  std::int64_t bytes = 0, busy_ns = 0, exposed_ns = 0;
  for (const LinkTimes& t : slow.executor().link_times())
    bytes += t.bytes, busy_ns += t.busy_ns, exposed_ns += t.exposed_ns;
  const auto least = static_cast<std::int64_t>(static_cast<double>(bytes) / gb_per_s);
  EXPECT_GT(bytes, 100'000);
  EXPECT_GE(busy_ns, least);
  EXPECT_GE(took_ns, least) << "a segment ends when its copies have ended";
  EXPECT_GT(exposed_ns, 0);
  EXPECT_EQ(slow.hashes(), as_it_is);
}

}  // namespace
}  // namespace shardmark::test::offload_run_test
