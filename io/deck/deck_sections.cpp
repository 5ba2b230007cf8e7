// SPDX-License-Identifier: Apache-2.0
// The sections of a deck that describe a run (`run`, `data`, `checkpoint`, `perturb`, `congestion`
// and those that consist of their records), and limits: counts that exceed 63 bits and plans that
// take too long are refused before anything is sized.
#include <fmt/core.h>

#include <core/error.hpp>
#include <core/plan/deck/checked.hpp>
#include <core/plan/deck/decoder_modules.hpp>
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>
#include <io/files/output_folder.hpp>

namespace shardmark {

void read_trace(KeyReader& deck, std::string& trace) {
  const Json* given = deck.any("trace");
  if (given == nullptr) return;
  deck.text("trace", trace);
  const bool plain = !trace.empty() && trace.front() != '.' &&
                     trace.find_first_of("/\\") == std::string::npos && !is_run_file(trace);
  if (!plain)
    deck.origin().refuse("trace", *given,
                         "must be a file name without a folder, and not the name of another file "
                         "of the run, because it is written to --out: give \"trace.json\"");
}

void read_checkpointing(KeyReader& reader, RunSpec& run) {
  const Json* value = reader.any("activation_checkpointing");
  if (!value) return;
  run.reentrant = *value == "reentrant";
  if (!run.reentrant && !value->is_boolean())
    reader.refuse("activation_checkpointing", *value,
                  "must be true or false, or \"reentrant\" for torch's older kind");
  run.activation_checkpointing = run.reentrant || value->get<bool>();
}

void read_run(KeyReader reader, Deck& deck) {
  reader.read(deck_keys("run"), deck);
  read_checkpointing(reader, deck.run);
  reader.finish();
}

void read_data(KeyReader reader, Deck& deck) {
  Origin& origin = reader.origin();
  DataSpec& data = deck.data;
  data.seed = deck.run.seed;
  reader.read(deck_keys("data"), deck);
  if (data.source == DataSource::file) {
    reader.need_text("path", data.path);
    data.path = origin.resolve(data.path);
  } else if (const Json* path = reader.any("path")) {
    origin.note(FindingKind::no_effect, reader.key("path"),
                brief(*path) + ": only a source of \"file\" reads a file");
  }
  reader.finish();
}

void read_plain(std::string_view section, KeyReader reader, Deck& deck) {
  reader.read(deck_keys(section), deck);
  reader.finish();
}

namespace {

void read_ranks(KeyReader& reader, std::vector<std::int64_t>& ranks) {
  const Json* list = reader.any("ranks");
  if (list == nullptr) return;
  for (const Json& rank : list->is_array() ? *list : Json::array({*list})) {
    const auto number = as_integer(rank);
    if (!number || *number < 0 || *number >= most_ranks)
      reader.refuse("ranks", rank, "must be a rank or an array of ranks, which count from 0");
    ranks.push_back(*number);
  }
}

void read_hosts(KeyReader& reader, std::vector<std::string>& hosts) {
  const Json* list = reader.any("hosts");
  if (list == nullptr) return;
  for (const Json& host : list->is_array() ? *list : Json::array({*list})) {
    if (!host.is_string()) reader.refuse("hosts", host, "must be the name of a host or an array");
    hosts.push_back(host.get<std::string>());
  }
}

}  // namespace

void read_perturb(KeyReader reader, Deck& deck) {
  PerturbSpec& perturb = deck.perturb;
  perturb.seed = deck.run.seed;
  reader.read(deck_keys("perturb"), deck);
  read_ranks(reader, perturb.ranks);
  read_hosts(reader, perturb.hosts);
  reader.finish();
  Origin& origin = reader.origin();
  if (perturb.memory.gbps > 0 && perturb.memory.share > 0)
    origin.refuse("perturb.memory_share", perturb.memory.share,
                  "stands beside perturb.memory_gbps: give one of both");
  if (perturb.ranks.empty() && perturb.hosts.empty() && perturb.random == 0)
    origin.missing("perturb.ranks",
                   "say who is made slower: ranks, hosts, or random for a number "
                   "of ranks that are drawn");
  if (!perturb.active())
    origin.note(FindingKind::no_effect, "perturb",
                "nobody is made slower: give a factor above 1, or pause_ms, memory_gbps or "
                "memory_share above 0");
  if (perturb.tail && perturb.pause_ms == 0)
    origin.note(FindingKind::no_effect, "perturb.tail", "there are no pauses: give pause_ms");
}

void read_congestion(KeyReader reader, Deck& deck) {
  deck.congestion.given = true;
  reader.read(deck_keys("congestion"), deck);
  read_ranks(reader, deck.congestion.ranks);
  read_hosts(reader, deck.congestion.hosts);
  reader.finish();
}

namespace {

// The most bytes that a parameter can cost: param, grad, master, momentum and variance in fp32, a
// gathered copy, and one more copy for temporary buffers of a step.
constexpr std::int64_t bytes_per_param = std::int64_t{4} * 7;

// Parameter tensors of one layer.
std::int64_t tensors_per_layer(const ModelSpec& m) {
  std::int64_t tensors = 0;
  const Decoder& d = *decoder_of(m);
  for (const Role role : roles_of(d))
    if (in_block(role)) tensors += tensors_of(d, role);
  for (const AdapterTarget& t : d.adapter.targets) tensors += std::max(tensors_of(d, t.role), 2);
  return tensors;
}

// The largest activations of one micro-batch: the residual stream, what each block saves, and the
// logits.
void check_activations(const ModelSpec& m, std::int64_t micro) {
  constexpr std::int64_t bytes_kept_per_channel = std::int64_t{4} * 32;
  const auto tokens = checked_mul(micro, m.sequence + 1, "model.sequence x micro-batch");
  const auto channels = checked_mul(tokens, m.hidden, "model.hidden x tokens of a micro-batch");
  const auto kept = checked_mul(channels, bytes_kept_per_channel, "activations of a block, bytes");
  (void)checked_mul(kept, m.layers, "activations of all layers, bytes");
  (void)checked_mul(checked_mul(tokens, m.vocab, "logits"), 4, "logits, bytes");
}

// At most two buckets of fp32, if the stage has buckets. They are allocated as a whole.
void check_buckets(const ZeroSpec& zero) {
  const bool contiguous = zero.knobs.contiguous_gradients || zero.offload_optimizer.enabled;
  if (zero.stage == 0 || !contiguous) return;
  constexpr std::int64_t bytes_per_elem = std::int64_t{2} * 4;
  (void)checked_mul(zero.knobs.reduce_bucket_size, bytes_per_elem,
                    "deepspeed.zero_optimization.reduce_bucket_size = " +
                        std::to_string(zero.knobs.reduce_bucket_size) + ": buckets, bytes");
}

}  // namespace

// A plan has about a hundred events for each tensor. The largest dense models have 1 200 tensors.
void check_tensors(const Deck& deck) {
  constexpr std::int64_t most_tensors = 16'384;
  const ModelSpec& m = deck.model;
  const bool list = m.family == Family::list;
  std::int64_t tensors = list ? 0 : m.layers * tensors_per_layer(m) + 5;
  for (const ListModule& module : m.modules)
    tensors += static_cast<std::int64_t>(module.numels.size());
  if (tensors <= most_tensors) return;
  throw DeckError(fmt::format(
      "{}: {} = {}: gives {} parameter tensors, must be at most {}, so that a plan takes seconds: "
      "choose {}",
      deck.path, list ? "model.modules" : "model.layers",
      list ? static_cast<std::int64_t>(m.modules.size()) : m.layers, tensors, most_tensors,
      list ? "fewer modules" : "fewer layers"));
}

void check_sizes(const Deck& deck, const Origin& origin) {
  try {
    ModelSpec m = deck.model;
    if (m.fit) m.layers = 1;  // model.fit tries more layers only as far as they fit
    (void)checked_mul(most_params(m), bytes_per_param, "model states, bytes");
    if (traits(deck.run.schedule).follows_deepspeed) check_buckets(deck.zero);
    if (traits(m.family).has_arithmetic)
      check_activations(m, deck.zero.micro_batch_size.value_or(1));
  } catch (const PlanError& error) {
    throw DeckError(origin.deck_file() + ": " + error.what());
  }
}

namespace {

void read_hints(KeyReader& reader, CheckpointSpec& checkpoint) {
  const Json* hints = reader.any("hints");
  if (!hints) return;
  constexpr const char* must = "must be an object of strings, as MPI_Info_set takes them";
  if (!hints->is_object()) reader.refuse("hints", *hints, must);
  for (const auto& [name, value] : hints->items()) {
    if (!value.is_string()) reader.refuse(join_key("hints", name), value, must);
    checkpoint.hints.emplace_back(name, value.get<std::string>());
  }
}

void read_layout(KeyReader& reader, CheckpointSpec& checkpoint) {
  const bool shared = reader.word("layout", {{"file_per_rank"}, {"shared"}}, 0) == 1;
  const Json* given = reader.any("ranks_per_file");
  if (shared && given)
    reader.refuse("ranks_per_file", *given,
                  "must not be given with layout \"shared\", in which all ranks write one "
                  "file: remove one of the two");
  if (shared) checkpoint.ranks_per_file = 0;
  if (!checkpoint.hints.empty() && checkpoint.ranks_per_file == 1)
    reader.origin().note(FindingKind::no_effect, reader.key("hints"),
                         "hints apply only to files that several ranks write");
}

void check_resume(const KeyReader& reader, const CheckpointSpec& checkpoint) {
  if (checkpoint.resume.empty() || checkpoint.resume.find('/') != std::string::npos ||
      checkpoint.resume[0] == '.')
    reader.refuse("resume", checkpoint.resume,
                  "must be \"none\", \"latest\", \"newest-good\" or the name of a checkpoint in "
                  "checkpoint.dir, like \"step-00000010\"");
}

}  // namespace

void read_checkpoint(KeyReader reader, Deck& deck) {
  Origin& origin = reader.origin();
  CheckpointSpec& checkpoint = deck.checkpoint;
  reader.read(deck_keys("checkpoint"), deck);
  checkpoint.dir = origin.resolve_output(checkpoint.dir);
  if ((checkpoint.alignment_bytes & (checkpoint.alignment_bytes - 1)) != 0)
    reader.refuse("alignment_bytes", *reader.any("alignment_bytes"), "must be a power of two");
  check_resume(reader, checkpoint);
  read_hints(reader, checkpoint);
  read_layout(reader, checkpoint);
  if (checkpoint.async && checkpoint.ranks_per_file != 1)
    reader.refuse("async", true,
                  "must be false if ranks share a file, because only the training thread may use "
                  "MPI-IO: give layout \"file_per_rank\" without ranks_per_file");
  if (!checkpoint.writes() && checkpoint.resume == "none")
    origin.note(FindingKind::warning, "checkpoint",
                "no checkpoint is written (every = 0) and none is resumed");
  reader.finish();
}

}  // namespace shardmark
