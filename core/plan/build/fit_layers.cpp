// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/footprint.hpp>
#include <core/plan/partition/flat_groups.hpp>
#include <core/text.hpp>

namespace shardmark {

namespace {

// The whole gradients that a rank keeps: their elements, and when the first of them is ready.
struct Kept {
  int rank;
  std::int64_t elems;
  std::size_t first;
};

std::vector<Kept> kept_gradients(const Deck& deck, int world) {
  ModelSpec spec = deck.model;
  spec.part.ranks = deck.zero.parallel.tensor;
  const ModelShape model =
      build_model_shape(spec, deck.run.activation_checkpointing, deck.run.reentrant);
  const FlatGroups flat(model, deck.zero.knobs, dtype_bytes(deck.zero.precision.model), world);
  std::vector<int> arrival;
  if (deck.zero.stage == 2 || deck.zero.knobs.overlap_comm)
    arrival = gradient_ready_order(model, false);
  else
    for (const FlatGroup& g : flat.groups())
      arrival.insert(arrival.end(), g.params.begin(), g.params.end());
  std::vector<Kept> kept;
  for (int r = 0; r < world; ++r) kept.push_back({r, 0, arrival.size()});
  for (std::size_t at = 0; at < arrival.size(); ++at)
    for (const OwnedSlice& slice : flat.owners(arrival[at])) {
      Kept& k = kept[static_cast<std::size_t>(slice.rank)];
      k.elems += model.params[arrival[at]].elems;
      k.first = std::min(k.first, at);
    }
  return kept;
}

// The memory that plans need, by number of layers. Each figure is computed once.
class Sizes {
 public:
  Sizes(Deck deck, const Batch& batch, int world, const Profile& profile, bool both_tiers)
      : deck_(std::move(deck)),
        batch_(batch),
        world_(world),
        profile_(profile),
        both_tiers_(both_tiers) {}

  /// The peak of live bytes. It is at most `allocated` and much faster to compute if memory is
  /// pooled.
  std::int64_t peak(std::int64_t layers) {
    return known(peaks_, layers, Extent::whole, [](const Program& p) {
      const Footprint f = footprint(p);
      return EnumArray<Tier, std::int64_t>{f.tiers[0].peak_bytes, f.tiers[1].peak_bytes};
    });
  }
  std::int64_t allocated(std::int64_t layers) {
    return known(allocated_, layers, Extent::whole,
                 [](const Program& p) { return allocated_bytes(p); });
  }
  /// The peak if it can be within `limit`. Otherwise it may be only what start-up leaves alive, so
  /// that a model that is far too deep is not planned as a whole.
  std::int64_t peak_or_beyond(std::int64_t layers, std::int64_t limit) {
    const std::int64_t at_start = known(states_, layers, Extent::start_up, [](const Program& p) {
      EnumArray<Tier, std::int64_t> bytes{};
      const auto live = live_at(p, p.segments[0].exit);
      for (const Tier t : all_values<Tier>)
        bytes[t] = std::accumulate(live[t].begin(), live[t].end(), std::int64_t{0});
      return bytes;
    });
    return at_start > limit ? at_start : peak(layers);
  }

 private:
  using Known = std::map<std::int64_t, std::int64_t>;

  template<class Size>
  std::int64_t known(Known& sizes, std::int64_t layers, Extent extent, Size size) {
    const auto [at, is_new] = sizes.try_emplace(layers, 0);
    if (!is_new) return at->second;
    deck_.model.layers = layers;
    for (int rank : heaviest_ranks(deck_, world_)) {
      const auto bytes = size(build_program(deck_, batch_, world_, rank, profile_, extent));
      const auto device = bytes[Tier::device];
      const auto host = bytes[Tier::host];
      at->second = std::max(at->second, both_tiers_ ? device + host : device);
    }
    return at->second;
  }

  Deck deck_;
  const Batch& batch_;
  int world_;
  const Profile& profile_;
  bool both_tiers_;
  Known states_, peaks_, allocated_;
};

// Finds the largest count whose size is within `limit`, between `low`, which is (0 always is), and
// `high`, which is not. Sizes lie nearly on a straight line, so the count at which the line reaches
// the limit, or the next one, is a good guess. Every third guess is the middle, so that the search
// ends for any sizes.
template<class Size>
std::int64_t largest_within(std::int64_t limit, std::int64_t low, std::int64_t high, Size size) {
  for (int tries = 0; high - low > 1; ++tries) {
    std::int64_t guess = low + (high - low) / 2;
    if (tries % 3 != 2) {
      const std::int64_t from = low == 0 ? 0 : size(low);
      const auto rise = static_cast<double>(std::max<std::int64_t>(1, size(high) - from));
      const double part = static_cast<double>(limit - from) / rise;
      guess = low + static_cast<std::int64_t>(part * static_cast<double>(high - low)) + tries % 3;
      guess = std::clamp(guess, low + 1, high - 1);
    }
    (size(guess) <= limit ? low : high) = guess;
  }
  return low;
}

}  // namespace

std::vector<int> heaviest_ranks(const Deck& deck, int world) {
  const bool alike =
      !traits(deck.run.schedule).follows_deepspeed || deck.zero.stage == 0 || deck.zero.stage == 3;
  if (alike) return {0};
  // The traffic through the device differs between ranks.
  if (deck.zero.offload_optimizer.enabled) {
    std::vector<int> all(static_cast<std::size_t>(world));
    std::iota(all.begin(), all.end(), 0);
    return all;
  }
  // Ranks that divide layers hold equally much, so the first of them stands for all.
  const int parts = Mesh(world, 0, deck.zero.parallel).tensor_ranks();
  std::vector<Kept> kept = kept_gradients(deck, world / parts);
  // Most elements first, and of equals the earliest. A rank with fewer elements counts only if its
  // first gradient is ready earlier.
  std::ranges::sort(kept, {}, [](const Kept& k) { return std::tuple(-k.elems, k.first, k.rank); });
  std::vector<int> ranks;
  std::size_t earliest = kept.front().first + 1;
  for (const Kept& k : kept)
    if (k.first < earliest) ranks.push_back(k.rank * parts), earliest = k.first;
  return ranks;
}

Fit fit_layers(const Deck& deck, const Batch& batch, int world, const Profile& profile,
               const FitBudget& budget) {
  Sizes sizes(deck, batch, world, profile, budget.both_tiers);
  Fit fit;
  fit.part = deck.model.fit.value_or(1);
  fit.budget = budget;
  fit.limit_bytes = static_cast<std::int64_t>(static_cast<double>(budget.bytes) * fit.part);
  const auto peak = [&](std::int64_t layers) {
    return sizes.peak_or_beyond(layers, fit.limit_bytes);
  };
  const auto allocated = [&](std::int64_t layers) { return sizes.allocated(layers); };
  std::int64_t low = 0, high = 1;
  while (high <= most_layers_to_fit && peak(high) <= fit.limit_bytes) low = high, high *= 2;
  fit.layers = high > most_layers_to_fit ? low : largest_within(fit.limit_bytes, low, high, peak);
  if (fit.layers > 0 && allocated(fit.layers) > fit.limit_bytes)
    fit.layers = largest_within(fit.limit_bytes, 0, fit.layers, allocated);
  fit.bytes = allocated(std::max<std::int64_t>(1, fit.layers));
  if (fit.layers == most_layers_to_fit) return fit;
  const std::int64_t next = fit.layers + 1;
  fit.next_bytes = sizes.peak(next) > fit.limit_bytes ? sizes.peak(next) : allocated(next);
  return fit;
}

std::optional<Fit> apply_fit(Deck& deck, const Batch& batch, int world, const Profile& profile,
                             const FitBudget& budget) {
  if (!deck.model.fit) return {};
  const Fit fit = fit_layers(deck, batch, world, profile, budget);
  deck.model.layers = std::max<std::int64_t>(1, fit.layers);
  return fit;
}

std::string describe(const Fit& f) {
  const std::string budget = fmt::format("{:.4g} % of {} ({})", f.part * 100,
                                         human_bytes(f.budget.bytes), f.budget.source);
  if (f.layers == 0)
    return fmt::format("not even one layer: it needs {} per rank, more than {}",
                       human_bytes(f.bytes), budget);
  return fmt::format("{}: {} per rank are within {}; {}", plural(f.layers, "layer"),
                     human_bytes(f.bytes), budget,
                     f.next_bytes > 0 ? "one more needs " + human_bytes(f.next_bytes)
                                      : "deeper models are not considered");
}

nlohmann::ordered_json print_json(const Fit& fit) {
  return {{"layers", fit.layers},
          {"bytes", fit.bytes},
          {"next_bytes", fit.next_bytes},
          {"part", fit.part},
          {"limit_bytes", fit.limit_bytes},
          {"budget_bytes", fit.budget.bytes},
          {"budget_source", fit.budget.source}};
}

namespace {

struct Change {
  std::string name;
  Deck deck;
  Batch batch;
};

std::vector<Change> changes(const Deck& deck, const Batch& batch) {
  std::vector<Change> list;
  const auto add = [&](std::string name, const auto& make) {
    list.push_back({std::move(name), deck, batch});
    make(list.back());
  };
  const ZeroSpec& zero = deck.zero;
  const bool deepspeed = traits(deck.run.schedule).follows_deepspeed;
  for (int stage = zero.stage + 1; stage <= 3; ++stage)
    add(fmt::format("ZeRO stage {}", stage), [&](Change& c) { c.deck.zero.stage = stage; });
  if (deepspeed && zero.stage > 0 && !zero.offload_optimizer.enabled)
    add("offload_optimizer", [](Change& c) { c.deck.zero.offload_optimizer.enabled = true; });
  if (deepspeed && zero.stage == 3 && !zero.offload_param.enabled)
    add("offload_param", [](Change& c) { c.deck.zero.offload_param.enabled = true; });
  if (zero.offload_param.enabled)
    add("no offload_param", [](Change& c) { c.deck.zero.offload_param = {}; });
  else if (zero.offload_optimizer.enabled)
    add("no offload_optimizer", [](Change& c) { c.deck.zero.offload_optimizer = {}; });
  if (deck.run.shard_size > 0)
    add("no run.shard_size", [](Change& c) { c.deck.run.shard_size = 0; });
  if (zero.knobs.hpz_partition_size > 1)
    add("no zero_hpz_partition_size", [](Change& c) { c.deck.zero.knobs.hpz_partition_size = 1; });
  if (!deck.run.activation_checkpointing && deck.run.compute == Compute::train)
    add("run.activation_checkpointing",
        [](Change& c) { c.deck.run.activation_checkpointing = true; });
  if (batch.micro > 1)
    add(fmt::format("train_micro_batch_size_per_gpu 1 with gradient_accumulation_steps {}",
                    batch.accumulation * batch.micro),
        [](Change& c) {
          c.batch.accumulation *= c.batch.micro;
          c.batch.micro = 1;
        });
  if (const std::int64_t bucket = zero.knobs.reduce_bucket_size / 10;
      deepspeed && zero.stage > 0 && bucket > 0)
    add(fmt::format("reduce_bucket_size {}", bucket),
        [&](Change& c) { c.deck.zero.knobs.reduce_bucket_size = bucket; });
  if (deepspeed && zero.stage == 3)
    add("stage3_max_live_parameters 0 and stage3_prefetch_bucket_size 0", [](Change& c) {
      c.deck.zero.knobs.max_live_parameters = c.deck.zero.knobs.prefetch_bucket_size = 0;
    });
  if (deck.run.memory_mode == MemoryMode::pooled)
    add("run.memory_mode \"strict\"",
        [](Change& c) { c.deck.run.memory_mode = MemoryMode::strict; });
  return list;
}

}  // namespace

std::vector<std::string> changes_that_fit(const Deck& deck, const Batch& batch, int world, int rank,
                                          const Profile& profile, const Fits& fits) {
  std::vector<std::string> fitting;
  for (Change& change : changes(deck, batch)) {
    const auto planned = [&](Extent extent) {
      return fits(build_program(change.deck, change.batch, world, rank, profile, extent));
    };
    try {
      if (planned(Extent::start_up) && planned(Extent::whole))
        fitting.push_back(std::move(change.name));
    } catch (const Error&) {
      continue;  // the schedule has no such plan
    }
  }
  return fitting;
}

}  // namespace shardmark
