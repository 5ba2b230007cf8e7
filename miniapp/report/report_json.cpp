// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/plan/build/fit_layers.hpp>
#include <core/plan/interpret/node_volume.hpp>
#include <core/plan/interpret/print.hpp>
#include <miniapp/measure/figures_of_merit.hpp>
#include <miniapp/measure/result.hpp>
#include <miniapp/provenance/environment.hpp>
#include <miniapp/report/report_json.hpp>
#include <miniapp/report/report_provenance.hpp>
#include <miniapp/report/report_stragglers.hpp>

namespace shardmark {

namespace {

using OrderedJson = nlohmann::ordered_json;

// JSON has no NaN; a figure that is not a number becomes null.
OrderedJson number(std::optional<double> value) {
  return value && std::isfinite(*value) ? OrderedJson(*value) : OrderedJson(nullptr);
}

// An object with one value for each phase.
template<class Value>
OrderedJson by_phase(Value value) {
  OrderedJson o;
  for (const EnergyPhase phase : all_values<EnergyPhase>)
    o[std::string(to_string(phase))] = value(phase);
  return o;
}

OrderedJson to_json(const NodeEnergy& node) {
  const PhaseSpans& spans = node.phases.spans;
  OrderedJson counters = OrderedJson::array();
  for (const CounterEnergy& c : node.counters)
    counters.push_back(
        {{"name", c.name},
         {"source", c.source},
         {"part", to_string(c.part)},
         {"joules", number(c.joules)},
         {"update_s", number(c.steps.update_s)},
         {"phases", by_phase([&](EnergyPhase p) { return number(c.phase_joules(p, spans)); })}});
  return {
      {"host", node.host},
      {"ranks", node.ranks},
      {"joules", number(node.joules())},
      {"counters", counters},
      {"phases", by_phase([&](EnergyPhase p) {
         return OrderedJson{{"count", spans[p].count}, {"seconds", number(spans[p].seconds)}};
       })},
      {"readings", {{"phase_ends", node.phases.ends}, {"seconds", number(node.phases.seconds)}}},
      {"missing", node.missing}};
}

// The key `energy`: null where nothing was measured, since 0 would be wrong.
OrderedJson energy_json(const EnergyFigure& f) {
  const auto joules = f.joules();
  const auto per = [&](double count) {
    return joules && count > 0 ? number(*joules / count) : OrderedJson(nullptr);
  };
  OrderedJson nodes = OrderedJson::array();
  double ranks = 0;
  for (const NodeEnergy& node : f.nodes) {
    ranks += node.ranks;
    nodes.push_back(to_json(node));
  }
  const auto phase = [&](EnergyPhase p) {
    const auto energy = f.phase(p);
    return OrderedJson{{"joules", energy ? number(energy->joules) : OrderedJson(nullptr)},
                       {"error", energy ? number(energy->error) : OrderedJson(nullptr)}};
  };
  return {{"joules", per(1)},
          {"seconds", number(f.seconds)},
          {"watts", per(f.seconds)},
          {"joules_per_token", per(f.tokens)},
          {"joules_per_rank", per(ranks)},
          {"error", joules ? number(f.error()) : OrderedJson(nullptr)},
          {"whole_nodes", joules && f.whole()},
          {"phases", by_phase(phase)},
          {"unresolved", f.unresolved()},
          {"nodes", nodes}};
}

OrderedJson hex(std::uint64_t value) {
  return fmt::format("{:016x}", value);
}

OrderedJson memory(const Result& r) {
  OrderedJson o;
  for (const Tier t : all_values<Tier>) {
    const TierResult& tier = r.tiers[t];
    if (t == Tier::nvme && tier.predicted_peak + tier.measured_peak == 0) continue;
    o[std::string(to_string(t))] = {{"predicted_peak", tier.predicted_peak},
                                    {"measured_peak", tier.measured_peak},
                                    {"live_peak", tier.live_peak},
                                    {"predicted_pinned_peak", tier.pinned_peak},
                                    {"predicted_by_category", category_json(tier.predicted)},
                                    {"measured_by_category", category_json(tier.measured)},
                                    {"at", tier.at},
                                    {"budget", tier.budget},
                                    {"budget_source", tier.budget_source}};
  }
  o["system"] = {{"rss_start", r.rss_start},
                 {"rss_peak", r.rss_peak},
                 {"replay_copy", r.replay_copy},
                 {"excess", r.rss_excess},
                 {"allowance", r.allowance}};
  if (r.device) {
    o["system"]["libraries"] = r.rss_libraries;
    o["system"]["device"] = {{"context", r.device->context_bytes},
                             {"libraries", r.device->libraries_bytes},
                             {"in_use", r.device->in_use_bytes},
                             {"excess", r.device->excess_bytes},
                             {"ranks", r.device->ranks}};
  }
  return o;
}

OrderedJson traffic(const Traffic& t) {
  return {{"calls", t.calls}, {"elems", t.elems}, {"bytes", t.bytes}};
}

OrderedJson collectives(const Program& p, const Result& r) {
  OrderedJson o = OrderedJson::object();
  for (const auto& [key, c] : r.collectives) {
    OrderedJson& of = o[collective_name(p, key)];
    of = {{"predicted", traffic(c.predicted)}, {"measured", traffic(c.measured)},
          {"p50_s", number(c.p50_s)},          {"p99_s", number(c.p99_s)},
          {"late_s", number(c.late_s)},        {"bus_gb_per_s", number(c.bus_gb_s)}};
    if (c.routed != Traffic{})
      of["routed"] = {{"elems", c.routed.elems}, {"bytes", c.routed.bytes}};
  }
  return o;
}

OrderedJson seconds(const TimeResult& t) {
  OrderedJson o;
  for (const NamedTime& n : named_times) o[n.key] = t.*n.of;
  return o;
}

// The form of DeepSpeed's log_summary(return_dict=True), with nccl-tests' bandwidth.
OrderedJson comms(const Result& r) {
  OrderedJson o = OrderedJson::object();
  for (const CommsLogOp& op : r.comms_log)
    for (const CommsLogRow& row : op.rows)
      o[op.name][std::to_string(row.message_bytes)] = {
          {"count", row.count},
          {"total_latency_ms", row.total_ms},
          {"avg_latency_ms", row.average_ms},
          {"tput_avg_gbps", row.tput_gbps},
          {"busbw_avg_gbps", row.busbw_gbps},
          {"msg_size_bytes", row.message_bytes},
          {"msg_size_str", message_size(row.message_bytes)},
          {"nccl_tests_busbw_gb_per_s", row.nccl_gb_s}};
  return o;
}

OrderedJson direction(const LinkResult& l) {
  const auto traffic_of = [](const LinkTraffic& t) {
    return OrderedJson{{"copies", t.copies}, {"bytes", t.bytes}};
  };
  return {{"predicted", traffic_of(l.predicted)},    {"measured", traffic_of(l.measured)},
          {"bytes_per_step", l.bytes_per_step},      {"seconds_per_step", l.busy_s},
          {"exposed_seconds_per_step", l.exposed_s}, {"gb_per_s", number(l.gb_per_s())}};
}

OrderedJson directions(const Result& r, bool disk) {
  OrderedJson o = OrderedJson::object();
  for (const Direction d : all_values<Direction>)
    if (is_disk(d) == disk) o[std::string(to_string(d))] = direction(r.link[d]);
  return o;
}

OrderedJson disk(const Result& r) {
  OrderedJson o = directions(r, true);
  o["direct"] = r.disk->direct;
  if (r.disk->kernel)
    o["kernel"] = {{"read_bytes", r.disk->kernel->read}, {"write_bytes", r.disk->kernel->written}};
  return o;
}

OrderedJson host_link(const Result& r) {
  OrderedJson o = {{"emulated", r.emulated_link_gb_per_s.has_value()}};
  if (r.emulated_link_gb_per_s) o["emulated_gb_per_s"] = *r.emulated_link_gb_per_s;
  o.update(directions(r, false));
  return o;
}

OrderedJson checks(const Result& r) {
  OrderedJson list = OrderedJson::array();
  for (const Check& c : r.checks)
    list.push_back({{"name", c.name}, {"state", to_string(c.state)}, {"detail", c.detail}});
  return list;
}

OrderedJson checkpoints(const CheckpointFigures& c) {
  OrderedJson o = {{"written", c.written},
                   {"written_bytes", c.written_bytes},
                   {"write_s", c.write_s},
                   {"blocked_s", c.blocked_s}};
  if (!c.timed_write_s.empty())
    o["benchmark"] = {{"state_bytes", c.timed_bytes},
                      {"write_s", c.timed_write_s},
                      {"read_s", c.timed_read_s},
                      {"rank_write_s", c.rank_write_s},
                      {"rank_read_s", c.rank_read_s},
                      {"write_gib_per_s", mean_gib_per_s(c.timed_bytes, c.timed_write_s)},
                      {"read_gib_per_s", mean_gib_per_s(c.timed_bytes, c.timed_read_s)},
                      {"file_system", c.file_system},
                      {"page_cache_dropped", !c.cached},
                      {"node_memory_bytes", c.node_memory_bytes}};
  if (!c.resumed_from.empty()) {
    o["resumed_from"] = c.resumed_from;
    o["first_step"] = c.first_step;
    o["read_bytes"] = c.read_bytes;
    o["files_opened"] = c.files_opened;
    o["read_s"] = c.read_s;
  }
  return o;
}

OrderedJson environment(const std::vector<VariableOfRanks>& variables) {
  OrderedJson o = OrderedJson::object();
  for (const VariableOfRanks& v : variables)
    if (v.same_everywhere) o[v.name] = v.values[0].first;
  return o;
}

// The environment of one rank contains only variables that differ between ranks.
OrderedJson ranks(const Result& r, const std::vector<VariableOfRanks>& variables) {
  OrderedJson list = OrderedJson::array();
  for (std::size_t i = 0; i < r.ranks.size(); ++i) {
    const RankInfo& rank = r.ranks[i];
    list.push_back({{"rank", i},
                    {"host", rank.host},
                    {"pid", rank.pid},
                    {"cores", rank.cores},
                    {"numa_nodes", rank.numa_nodes},
                    {"processor", rank.processor},
                    {"kernel_threads", rank.kernel_threads},
                    {"matmul_threads", rank.matmul_threads},
                    {"thread_binding", rank.thread_binding},
                    {"environment", OrderedJson::object()}});
  }
  for (const VariableOfRanks& v : variables)
    if (!v.same_everywhere)
      for (const auto& [value, of] : v.values)
        for (int rank : of) list[rank]["environment"][v.name] = value;
  return list;
}

// The class, and what it was decided by, besides the deck and the figures below.
void run_class(OrderedJson& o, const Result& r) {
  o["class"] = r.run_class.official() ? "official" : "unofficial";
  o["unofficial_reasons"] = r.run_class.reasons;
  o["division"] = {{"name", to_string(r.run_class.division.division)},
                   {"reasons", r.run_class.division.reasons}};
  o["overrides"] = r.sets;
  if (r.data) o["data"] = {{"hash", r.data->hash}, {"bytes", r.data->bytes}};
}

}  // namespace

OrderedJson state_hash_json(const StateHashes& hashes) {
  OrderedJson o;
  for (const State state : all_values<State>)
    o[std::string(to_string(state))] = hex(hashes.of[state]);
  return o;
}

std::string report_json(const Deck& deck, const Program& p, const Result& r) {
  OrderedJson o;
  o["name"] = deck.name;
  o["result"] = r.valid() ? "VALID" : "INVALID";
  o["invalid_reasons"] = r.invalid_reasons();
  if (!r.stopped.empty()) o["stopped"] = r.stopped;
  o["run"] = {{"id", r.identity.id}, {"started", r.identity.started}, {"ended", r.identity.ended}};
  run_class(o, r);
  const auto merits = figures_of_merit(r);
  o["fom"] = {{"name", merits[0].name}, {"value", number(merits[0].value)}};
  if (const auto merit = parameter_tokens_per_s(p, r)) o["parameter_tokens_per_s"] = number(*merit);
  o["world"] = p.world;
  o["stage"] = p.stage;
  o["schedule"] = to_string(p.schedule);
  o["reductions"] = to_string(p.reductions);
  o["parameters"] = p.model.parameters;
  if (r.fit) o["fit"] = print_json(*r.fit);
  o["partition"] = {{"padded", p.partition.padded}, {"per_rank", p.partition.per_rank}};
  o["profile"] = {{"ranks_per_node", r.profile.ranks_per_node},
                  {"workspace_cap_bytes", r.profile.workspace_cap_bytes},
                  {"staging_cap_bytes", r.profile.staging_cap_bytes}};
  o["batch"] = {{"train_batch_size", p.batch.global},
                {"train_micro_batch_size_per_gpu", p.batch.micro},
                {"gradient_accumulation_steps", p.batch.accumulation}};
  o["memory"] = memory(r);
  o["collectives"] = collectives(p, r);
  o["sampled_steps"] = r.sampled_steps;
  if (!r.comms_log.empty()) o["comms_logger"] = comms(r);
  if (r.copies()) o["host_link"] = host_link(r);
  if (r.disk) o["disk"] = disk(r);
  o["volume_per_parameter"] = volume_per_parameter(p, steady_volume(p));
  if (const auto volume = volume_between_nodes(p, deck, r.profile.ranks_per_node))
    o["volume_between_nodes"] = print_json(*volume);
  o["seconds_per_step"] = seconds(r.times);
  o["step_seconds"] = {{"p50", r.step_p50_s},
                       {"p99", r.step_p99_s},
                       {"worst", r.stragglers.worst_step_s},
                       {"timed_total", r.timed_s}};
  o.update(stragglers_json(r));
  if (r.prediction) {
    o["prediction"] = point_json(r.prediction->point);
    o["prediction"]["machine"] = r.prediction->standing;
    if (r.core_to_core_s > 0) o["prediction"]["core_to_core_ns"] = r.core_to_core_s * 1e9;
    for (const PredictedTime& t : predicted_times(r))
      o["error"][std::string(t.name)] = t.error() ? number(*t.error()) : OrderedJson(nullptr);
    const MeasuredUse use = measured_use(r);
    if (use.mfu) o["mfu"] = *use.mfu;
    if (use.hfu) o["hfu"] = *use.hfu;
  }
  for (const ExpertLoad& e : r.experts) {
    o["experts"].push_back({{"layer", e.layer}, {"most", e.most}, {"least", e.least}});
    if (e.rank_most > 0) o["experts"].back()["rank_most"] = e.rank_most;
  }
  o["slowest_rank"] = {{"rank", r.slowest_rank},
                       {"own_seconds_per_step", r.slowest_times.own()},
                       {"seconds_per_step", seconds(r.slowest_times)}};
  o["state_hash"] = state_hash_json(r.hashes);
  if (!r.rows.empty() && deck.run.compute == Compute::train)
    o["loss"] = {{"first", number(r.rows.front().loss)}, {"last", number(r.rows.back().loss)}};
  o["energy"] = energy_json(r.energy);
  if (!deck.checkpoint.dir.empty()) o["checkpoints"] = checkpoints(r.checkpoints);
  if (r.replay.unused.empty())
    o["replay"] = {{"step", r.replay.step},
                   {"gradient_difference", number(r.replay.gradient)},
                   {"norm_difference", number(r.replay.norm)},
                   {"bound", number(r.replay.bound)}};
  if (r.proof)
    o["proof"] = {{"timed_steps", r.proof->timed_steps}, {"proved_steps", r.proof->proved_steps},
                  {"period", r.proof->period},           {"collectives", r.proof->collectives},
                  {"cost", number(r.proof->cost)},       {"seed", hex(r.proof->seed)}};
  o["binaries"] = r.binaries;
  o["checks"] = checks(r);
  o["warnings"] = r.warnings;
  const auto variables = by_variable(r.ranks);
  o["ranks"] = ranks(r, variables);
  o["environment"] = environment(variables);
  o["versions"] = r.versions;
  if (!r.bf16_products.empty()) o["bf16_products"] = r.bf16_products;
  if (!r.collectives_by.empty()) o["collectives_by"] = r.collectives_by;
  o["deck_path"] = deck.path;
  o["deck_hash"] = r.deck_hash;
  o["plan_hash"] = r.plan_hash;
  o["deck"] = OrderedJson::parse(r.deck_text, nullptr, false, true);
  o["checksum"] = report_checksum(o, losses_csv(r.rows));
  return report_dump(o) + "\n";
}

}  // namespace shardmark
