// SPDX-License-Identifier: Apache-2.0
// The sections of a deck that describe a run: `run data comm memory machine expect`.
#include <limits>

#include <io/deck/deck_sections.hpp>
#include <io/files/output_folder.hpp>

namespace shardmark {
namespace {

constexpr std::int64_t max_steps = 1'000'000'000;
constexpr double max_gib = 1e9, max_seconds = 1e9;

}  // namespace

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
    reader.origin().refuse(reader.key("activation_checkpointing"), *value,
                           "must be true or false, or \"reentrant\" for torch's older kind");
  run.activation_checkpointing = run.reentrant || value->get<bool>();
}

void read_run(KeyReader reader, RunSpec& run) {
  if (reader.any("steps")) reader.integer("steps", run.steps, {1, max_steps});
  reader.integer("warmup", run.warmup, {0, max_steps});
  reader.seed("seed", run.seed);
  reader.choice("schedule", run.schedule);
  reader.choice("compute", run.compute, {Compute::train, Compute::none}, {"gemm"});
  reader.choice("reductions", run.reductions);
  reader.choice("memory_mode", run.memory_mode, {MemoryMode::pooled, MemoryMode::strict});
  read_checkpointing(reader, run);
  if (reader.any("shard_size"))
    reader.integer("shard_size", run.shard_size, {1, std::numeric_limits<int>::max()});
  reader.real("time_limit_s", run.time_limit_s, {0, max_seconds, true});
  reader.finish();
}

void read_data(KeyReader reader, DataSpec& data, std::uint64_t run_seed) {
  Origin& origin = reader.origin();
  data.seed = run_seed;
  const Json* source = reader.any("source");
  if (!source) origin.missing(reader.key("source"), "give \"file\", \"markov\" or \"uniform\"");
  reader.choice("source", data.source, {DataSource::file, DataSource::markov, DataSource::uniform});
  if (data.source == DataSource::file) {
    reader.need_text("path", data.path);
    data.path = origin.resolve(data.path);
  } else if (const Json* path = reader.any("path")) {
    origin.note(FindingKind::no_effect, reader.key("path"),
                brief(*path) + ": only a source of \"file\" reads a file");
  }
  reader.seed("seed", data.seed);
  reader.finish();
}

void read_comm(KeyReader reader, CommSpec& comm) {
  reader.choice("backend", comm.backend);
  reader.real("timeout_s", comm.timeout_s, {0, max_seconds, true});
  reader.real("delay_ms", comm.delay_ms, {0, 1e6});
  reader.finish();
}

void read_memory(KeyReader reader, MemorySpec& memory) {
  for (const Tier t : all_values<Tier>)
    reader.real(std::string(to_string(t)) + "_gib", memory.budget_gib[t], {0, max_gib, true});
  reader.real("allowance_mib", memory.allowance_mib, {0, max_gib});
  reader.finish();
}

void read_machine(KeyReader reader, MachineSpec& machine) {
  reader.real("host_link_gbps", machine.host_link_gbps, {0, 1e6, true});
  reader.integer("ranks_per_node", machine.ranks_per_node, {1, most_ranks});
  reader.finish();
}

void read_expect(KeyReader reader, ExpectSpec& expect) {
  reader.real("loss", expect.loss, {});
  reader.real("tolerance", expect.tolerance, {0});
  reader.real("loss_drop", expect.loss_drop, {0});
  reader.integer("train_batch_size", expect.train_batch_size, {0});
  reader.integer("steps", expect.steps, {0});
  reader.finish();
}

}  // namespace shardmark
