// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include <fmt/core.h>

#include <core/plan/deck/quantized.hpp>
#include <core/plan/interpret/copy_volume.hpp>
#include <core/text.hpp>
#include <io/checkpoint/manifest.hpp>
#include <miniapp/rules/official_rules.hpp>
#include <miniapp/rules/run_class.hpp>

namespace shardmark {

namespace {

// How many steps, or writes, of `seconds_each` an official run is advised to have: they take
// `least_s` with OfficialRules::margin, rounded up to two digits, and are at least `least`. Without
// a time it is `least`.
std::int64_t enough_of(double seconds_each, int least_s, int least) {
  constexpr double most = 1e15;
  if (!(seconds_each > 0)) return least;
  const double needed = std::min(OfficialRules::margin * least_s / seconds_each, most);
  if (needed <= least) return least;
  const double unit = std::max(1.0, std::pow(10, std::floor(std::log10(needed)) - 1));
  return static_cast<std::int64_t>(std::ceil(needed / unit) * unit);
}

// The value for `--set` with which steps of `step_s` take long enough.
std::string enough_steps(double step_s) {
  return fmt::format("run.steps={}",
                     enough_of(step_s, OfficialRules::timed_s, OfficialRules::steps));
}

/// One judgement: collects the reasons in the order in which they are printed.
class Judgement {
 public:
  explicit Judgement(const ClassFacts& facts) : f_(facts), deck_(facts.deck) {}

  RunClass judge(const UsedDeck* shipped) {
    class_.division = judge_division(f_.used, shipped);
    if (deck_.checkpoint.benchmark > 0)
      storage();
    else
      training();
    arithmetic();
    emulation();
    course();
    for (const std::string& change : class_.division.reasons)
      against(true, fmt::format("division {}: {}", to_string(class_.division.division), change));
    against(!f_.fault.empty(), f_.fault);
    return std::move(class_);
  }

 private:
  bool against(bool holds, std::string reason) {
    if (holds) class_.reasons.push_back(std::move(reason));
    return holds;
  }
  void cure(std::size_t reasons, std::string setting) {
    class_.settings.push_back(std::move(setting));
    class_.cured += reasons;
  }

  void training() {
    using Rules = OfficialRules;
    const RunSpec& run = deck_.run;
    const bool cold = against(run.warmup < Rules::warmup,
                              fmt::format("{}, at least {} are required",
                                          plural(run.warmup, "warm-up step"), Rules::warmup));
    std::size_t short_by = against(
        run.steps < Rules::steps,
        fmt::format("{}, at least {} are required", plural(run.steps, "timed step"), Rules::steps));
    if (!f_.end)
      class_.open.push_back(fmt::format("the timed steps take {} s", Rules::timed_s));
    else
      short_by += against(
          f_.end->timed_s < Rules::timed_s,
          fmt::format("{:.1f} s timed, at least {} are required", f_.end->timed_s, Rules::timed_s));
    if (short_by > 0) {
      const double step_s =
          f_.end && run.steps > 0 ? f_.end->timed_s / static_cast<double>(run.steps) : 0;
      cure(short_by, enough_steps(step_s));
    }
    if (cold) cure(1, fmt::format("run.warmup={}", Rules::warmup));
    against(run.compute != Compute::train, fmt::format("compute {}", to_string(run.compute)));
  }

  void storage() {
    using Rules = OfficialRules;
    const std::int64_t full = full_checkpoint_bytes(name());
    const bool is_full = full > 0 && f_.checkpoint_bytes >= full;
    const bool enough = is_full && deck_.checkpoint.benchmark >= Rules::full_checkpoints;
    const std::string otherwise = full_size_text(full, is_full);
    if (!f_.end) {
      if (!enough)
        class_.open.push_back(
            fmt::format("the writes take {} s in all{}", Rules::writing_s, otherwise));
      class_.open.emplace_back("the page cache can be dropped before each read");
      return;
    }
    const auto& each = f_.end->write_s;
    const double all_s = std::accumulate(each.begin(), each.end(), 0.0);
    if (against(!enough && all_s < Rules::writing_s,
                fmt::format("{:.1f} s of writes, at least {} are required{}", all_s,
                            Rules::writing_s, otherwise))) {
      std::int64_t writes = Rules::full_checkpoints;
      if (all_s > 0) {
        const auto long_enough =
            enough_of(all_s / static_cast<double>(each.size()), Rules::writing_s, 1);
        writes = is_full ? std::min(writes, long_enough) : long_enough;
      }
      cure(1, fmt::format("checkpoint.benchmark={}", writes));
    }
    page_cache();
  }

  // The other way to an official figure: as many checkpoints of the size of the deck's model.
  std::string full_size_text(std::int64_t full, bool is_full) const {
    if (full == 0) return "";
    if (is_full)
      return fmt::format(" (or {} checkpoints instead of {}, as each has the full size of {})",
                         OfficialRules::full_checkpoints, deck_.checkpoint.benchmark,
                         human_bytes(full));
    const std::string have = f_.checkpoint_bytes > 0
                                 ? fmt::format(" instead of {}", human_bytes(f_.checkpoint_bytes))
                                 : std::string{};
    return fmt::format(
        " (or {} checkpoints of the full size of {}{}, by more ranks or a larger "
        "memory.device_gib)",
        OfficialRules::full_checkpoints, human_bytes(full), have);
  }

  // Of the deck's text: a deck without a name would have that of its file.
  std::string name() const {
    const auto it = f_.used.text.find("name");
    return it != f_.used.text.end() && it->is_string() ? it->get<std::string>() : "";
  }

  void page_cache() {
    const RunEnd& end = *f_.end;
    const std::int64_t on_node =
        f_.world > 0 ? f_.checkpoint_bytes / f_.world * f_.ranks_per_node : 0;
    const std::int64_t memory = end.node_memory_bytes;
    const bool beyond = memory > 0 && on_node / OfficialRules::memory_multiple >= memory;
    against(end.cached && !beyond,
            fmt::format("the page cache could not be dropped, and a node's part of a checkpoint "
                        "({}) is not {} times its memory ({})",
                        human_bytes(on_node), OfficialRules::memory_multiple,
                        memory > 0 ? human_bytes(memory) : "unknown"));
  }

  void arithmetic() {
    against(deck_.run.reductions != Reductions::native,
            fmt::format("reductions {}", to_string(deck_.run.reductions)));
    against(deck_.run.memory_mode != MemoryMode::pooled,
            fmt::format("memory_mode {}", to_string(deck_.run.memory_mode)));
  }

  void emulation() {
    against(deck_.comm.delay_ms > 0, fmt::format("comm.delay_ms {}", deck_.comm.delay_ms));
    against(deck_.perturb.active(), "perturb: " + describe(deck_.perturb));
    against(deck_.congestion.given, "congestion: " + describe(deck_.congestion));
    against(f_.traced, "timed steps are traced");
    if (f_.copies && deck_.machine.host_link_gbps)
      against(true,
              fmt::format("emulated: machine.host_link_gbps {}", *deck_.machine.host_link_gbps));
    const std::int64_t node = deck_.machine.ranks_per_node;
    against(sends_int4(deck_) && node > 0 && f_.ranks_per_node > 0 && node != f_.ranks_per_node,
            fmt::format("emulated: machine.ranks_per_node {}", node));
  }

  void course() {
    against(f_.end && f_.end->stopped, "the run was stopped");
    against(!f_.resumed_from.empty(), "resumed from " + f_.resumed_from);
  }

  const ClassFacts& f_;
  const Deck& deck_;
  RunClass class_;
};

bool copies_between_host_and_device(const Program& program) {
  const LinkVolume link = steady_link_volume(program);
  return std::ranges::any_of(link, [](const LinkTraffic& t) { return t.copies > 0; });
}

}  // namespace

RunClass judge_class(const ClassFacts& facts, const UsedDeck* shipped) {
  return Judgement(facts).judge(shipped);
}

RunClass class_of(const ClassFacts& facts) {
  const std::optional<UsedDeck> shipped = shipped_deck_of(facts.used.text);
  return judge_class(facts, shipped ? &*shipped : nullptr);
}

ClassFacts facts_of(const LoadedDeck& loaded, std::optional<FileIdentity> data,
                    const Program* program, int ranks_per_node) {
  ClassFacts facts;
  facts.deck = loaded.deck;
  facts.traced = loaded.output.traces_steps();
  facts.used = {nlohmann::json::parse(loaded.used_json), std::move(data)};
  facts.ranks_per_node = ranks_per_node;
  if (program == nullptr) return facts;
  facts.world = program->world;
  facts.copies = copies_between_host_and_device(*program);
  facts.checkpoint_bytes = checkpoint_bytes(*program);
  return facts;
}

std::int64_t checkpoint_bytes(const Program& program) {
  Manifest manifest;
  manifest.model_dtype = program.precision.model;
  manifest.optimizer = program.optimizer;
  manifest.params.push_back({.name = "", .elems = program.model.elems, .shape = {}});
  return manifest.state_bytes();
}

std::string describe_start(const RunClass& c) {
  if (!c.official()) return fmt::format("unofficial ({})", join(c.reasons, "; "));
  const std::string text =
      fmt::format("can become official, division {}", to_string(c.division.division));
  return c.open.empty() ? text : fmt::format("{}, if {}", text, join(c.open, " and "));
}

std::string describe_pace(const RunClass& start, const RunSpec& run, const Pace& pace) {
  const double timed_s = pace.step_s * static_cast<double>(run.steps);
  const bool curable = start.reasons.size() == start.cured && run.compute == Compute::train;
  if (!curable || !(pace.step_s > 0) || timed_s >= OfficialRules::timed_s) return "";
  return fmt::format(
      "At the pace of {}, {:.3g} s per step, the timed steps take {:.3g} s; an official figure "
      "needs {} s: --set {}",
      pace.of, pace.step_s, timed_s, OfficialRules::timed_s, enough_steps(pace.step_s));
}

std::string describe_write_pace(ClassFacts facts, const RunClass& start,
                                const std::vector<double>& write_s) {
  if (!start.official() || write_s.empty()) return "";
  const double each_s =
      std::accumulate(write_s.begin(), write_s.end(), 0.0) / static_cast<double>(write_s.size());
  const std::int64_t writes = facts.deck.checkpoint.benchmark;
  facts.end.emplace().write_s.assign(static_cast<std::size_t>(writes), each_s);
  // A run that can become official has the shipped deck.
  const RunClass then = judge_class(facts, &facts.used);
  if (then.settings.empty()) return "";
  return fmt::format(
      "At the pace of the first {}, {:.3g} s each, the {} writes take {:.3g} s; an official figure "
      "needs {} s: --set {}",
      plural(static_cast<std::int64_t>(write_s.size()), "write"), each_s, writes,
      each_s * static_cast<double>(writes), OfficialRules::writing_s,
      join(then.settings, " --set "));
}

}  // namespace shardmark
