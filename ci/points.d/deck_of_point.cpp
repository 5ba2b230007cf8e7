// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <fstream>
#include <regex>

#include <ci/points.d/deck_of_point.hpp>
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/interpret/footprint.hpp>
#include <core/plan/price/price.hpp>
#include <core/plan/price/event_costs.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/deepspeed/config.hpp>

namespace shardmark::points {
namespace {

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

// Returns the number in front of `unit`, or 0 if the text has no such number.
double number_before(const std::string& text, const std::string& unit) {
  std::smatch m;
  return std::regex_search(text, m, std::regex("([0-9.]+) ?" + unit)) ? std::stod(m[1]) : 0;
}

int stage_of(const Point& p) {
  if (p.strategy.rfind("zero", 0) == 0) return std::clamp(p.strategy[4] - '0', 0, 3);
  return 3;
}

// Returns how many ranks share one copy of the states; 0 means all ranks.
int shard_ranks(const Point& p) {
  if (contains(p.strategy, "hybrid")) return p.gpus_per_node;
  const double over =
      number_before(p.strategy.substr(std::min<std::size_t>(5, p.strategy.size())), "ranks");
  return over > 0 && over < p.gpus && p.gpus % static_cast<int>(over) == 0 ? static_cast<int>(over)
                                                                           : 0;
}

struct Cut {
  std::int64_t micro = 1, accumulation = 1;
  double scale = 1;  // tokens of the source / tokens of the deck
};

double sequences_per_rank(const Point& p) {
  return static_cast<double>(p.global_batch) / p.gpus;
}

// Micro-batches that the point may have used: the published one, or else the powers of two up to
// 16, largest first.
std::vector<std::int64_t> micro_batches_of(const Point& p) {
  if (p.micro_batch > 0) return {p.micro_batch};
  std::vector<std::int64_t> list;
  for (std::int64_t micro = 16; micro >= 1; micro /= 2)
    if (micro == 1 || static_cast<double>(micro) <= sequences_per_rank(p)) list.push_back(micro);
  return list;
}

// A rank's sequences of a step as equal micro-batches.
Cut cut_of(const Point& p, std::int64_t micro) {
  const double per_rank = sequences_per_rank(p);
  Cut c;
  c.micro = micro;
  c.accumulation = std::max<std::int64_t>(1, std::llround(per_rank / static_cast<double>(c.micro)));
  c.scale = per_rank / static_cast<double>(c.micro * c.accumulation);
  return c;
}

// Bytes per second between a node and the others; 0: the source does not say it.
double node_rate(const Point& p) {
  double gbps = number_before(p.network, "Gb/s");
  if (gbps == 0) gbps = 1000 * number_before(p.network, "Tb/s");
  if (const double count = number_before(p.network, "x"); count > 0) gbps *= count;
  if (contains(p.network, "a GPU") && !contains(p.network, "whether")) gbps *= p.gpus_per_node;
  return gbps * 1e9 / 8;
}

}  // namespace

std::string reason_to_skip(const Point& p) {
  if (contains(p.strategy, "model parallel")) return "model parallelism";
  if (contains(p.strategy, "offload")) return "offload without details";
  if (p.step_s <= 0 || p.global_batch <= 0) return "no time or batch published";
  if (machine_file_of(p).empty()) return "no machine file";
  return {};
}

std::optional<double> recomputed_part(const Point& p) {
  constexpr double selective = 0.5;
  if (!p.recomputation) return {};
  const std::string& text = *p.recomputation;
  if (text == "none") return 0;
  if (p.recomputes_blocks()) return 1;
  std::smatch m;
  if (std::regex_search(text, m, std::regex("([0-9]+) ?/ ?([0-9]+)")) && std::stod(m[2]) > 0)
    return std::clamp(std::stod(m[1]) / std::stod(m[2]), 0.0, 1.0);
  if (std::regex_search(text, m, std::regex("(0?\\.[0-9]+)"))) return std::stod(m[1]);
  return selective;
}

std::string deck_text_of(const Point& p, bool recompute, std::int64_t micro) {
  using Json = nlohmann::ordered_json;
  const PublishedModel& m = p.model;
  const bool gpt = contains(m.family, "gpt") || m.family == "mpt";
  Json model{{"family", gpt ? "gpt2" : "llama"},
             {"layers", m.layers},
             {"hidden", m.hidden},
             {"heads", m.heads},
             {"sequence", m.sequence},
             {"vocab", m.vocab},
             {"tied_head", m.tied_head}};
  if (!gpt) model["kv_heads"] = m.kv_heads, model["ffn"] = m.ffn;
  const Cut cut = cut_of(p, micro);
  const int stage = stage_of(p);
  const std::string type = contains(p.precision, "fp16") ? "fp16" : "bf16";
  Json deepspeed{{"train_micro_batch_size_per_gpu", cut.micro},
                 {"gradient_accumulation_steps", cut.accumulation},
                 {"gradient_clipping", 1.0},
                 {type, {{"enabled", true}}},
                 {"zero_optimization", {{"stage", stage}}}};
  Json run{{"steps", 10}, {"schedule", "paper"}, {"activation_checkpointing", recompute}};
  if (recompute && p.recomputation == "full") run["activation_checkpointing"] = "reentrant";
  if (const int ranks = shard_ranks(p); ranks > 0) run["shard_size"] = ranks;
  return Json{{"name", p.source}, {"model", model}, {"deepspeed", deepspeed}, {"run", run}}.dump(1);
}

std::string hardware_of(const Point& p) {
  static const std::vector<std::pair<std::string, std::string>> files{
      {"A100-SXM-40GB", "dgx-a100-40gb"},
      {"A100-SXM", "dgx-a100-80gb"},
      {"H100-SXM-96GB", "hgx-h100-96gb"},
      {"H100-SXM", "dgx-h100"},
      {"H200", "dgx-h200"},
      {"B200", "dgx-b200"},
      {"V100", "dgx-2"},
      {"GH200", "gh200"},
      {"MI250X", "frontier-mi250x"},
      {"MI300X", "mi300x"}};
  for (const auto& [gpu, file] : files)
    if (p.gpu.rfind(gpu, 0) == 0) return file;
  return {};
}

std::string machine_file_of(const Point& p) {
  const std::string hardware = hardware_of(p);
  if (hardware.empty()) return {};
  const bool roce = contains(p.network, "RoCE") && hardware.rfind("dgx-a100", 0) == 0;
  return hardware + (roce ? "-roce.json" : ".json");
}

Machine machine_of(const Point& p, Machine machine) {
  const Software given = machine.software;
  machine.software = p.software;
  machine.software.eager_traffic = given.eager_traffic;
  machine.software.eager_launch_s = given.eager_launch_s;
  const double rate = node_rate(p);
  for (NetworkLevel& level : machine.network)
    if (level.between_nodes && rate > 0 && rate != level.node_bytes_per_s) {
      level.node_bytes_per_s = rate;
      level.link.bytes_per_s = rate / p.gpus_per_node;
    }
  return machine;
}

std::vector<PricedDeck> programs_of(const Point& p, const Machine& machine,
                                    const std::string& folder, const std::string& name) {
  constexpr double unknown = 0.5;
  const auto built = [&](bool again, std::int64_t micro, double weight) {
    const std::string path = fmt::format("{}/{}{}.json", folder, name, again ? "-recompute" : "");
    std::ofstream(path) << deck_text_of(p, again, micro) << '\n';
    const Deck deck = read_deck(path, {}, DeckUse::plan).deck;
    Profile profile;
    profile.ranks_per_node = std::min(p.gpus, p.gpus_per_node);
    return PricedDeck{build_program(deck, infer_batch(deck.zero, p.gpus, path), p.gpus, 0, profile),
                      cut_of(p, micro).scale, weight};
  };
  const std::vector<std::int64_t> micros = micro_batches_of(p);
  std::optional<double> part = recomputed_part(p);
  std::vector<PricedDeck> decks;
  for (std::size_t i = 0; i < micros.size() && !part; ++i) {
    PricedDeck deck = built(false, micros[i], 1);
    const double bytes = static_cast<double>(allocated_bytes(deck.program)[Tier::device]);
    if (machine.device.memory_bytes == 0 || bytes <= machine.device.memory_bytes)
      return decks.push_back(std::move(deck)), decks;
  }
  if (!part) part = unknown;
  if (*part < 1) decks.push_back(built(false, micros.front(), 1 - *part));
  if (*part > 0) decks.push_back(built(true, micros.front(), *part));
  return decks;
}

PredictedStep predicted_step(const Point& p, const std::vector<PricedDeck>& decks,
                             const Machine& machine) {
  PriceOptions options;
  options.ranks_per_node = std::min(p.gpus, p.gpus_per_node);
  options.keep_events = false;
  PredictedStep predicted;
  for (const PricedDeck& d : decks) {
    const PricedStep step = price(d.program, machine, options);
    predicted.seconds += step.step_s * d.scale * d.weight;
    predicted.host_share += step.host_share() * d.weight;
  }
  predicted.seconds *= straggler_factor(machine, p.gpus, options.ranks_per_node);
  return predicted;
}

}  // namespace shardmark::points
