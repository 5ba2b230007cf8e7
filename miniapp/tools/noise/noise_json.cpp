// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <miniapp/provenance/version.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
namespace {

using Object = nlohmann::ordered_json;

double us(double seconds) {
  return seconds * 1e6;
}

Object group(const NoiseGroup& g) {
  Object o = Object::object();
  if (g.rank >= 0) o["rank"] = g.rank;
  if (!g.host.empty()) o["host"] = g.host;
  if (g.rank < 0) o["ranks"] = g.ranks;
  const NoiseFigures& f = g.figures;
  o["quanta"] = f.quanta;
  o["fastest_us"] = us(f.undisturbed_s());
  o["work_s"] = f.work_s;
  o["lost_s"] = f.lost_s;
  o["lost_part"] = f.lost_part();
  o["detours"] = f.detours;
  o["detours_per_s"] = f.detours_per_s();
  o["mean_detour_us"] = us(f.mean_detour_s());
  o["delay_us"] = {{"mean", us(g.delays.mean())},           {"p50", us(g.delays.quantile(0.5))},
                   {"p90", us(g.delays.quantile(0.9))},     {"p99", us(g.delays.quantile(0.99))},
                   {"p99.9", us(g.delays.quantile(0.999))}, {"max", us(g.delays.largest())}};
  if (g.rank < 0) return o;
  o["periods"] = Object::array();
  for (const Period& p : g.periods)
    o["periods"].push_back({{"period_us", us(p.period_s)},
                            {"detour_us", us(p.detour_s)},
                            {"hit_part", p.hit_part},
                            {"lost_part", p.lost_part}});
  return o;
}

Object groups(const std::vector<NoiseGroup>& list) {
  Object all = Object::array();
  for (const NoiseGroup& g : list) all.push_back(group(g));
  return all;
}

}  // namespace

std::string noise_json(const Noise& n) {
  Object o{{"program", std::string("shardmark ") + version()},
           {"date", n.date},
           {"seconds", n.seconds},
           {"quantum_us", n.arguments.quantum_us},
           {"iterations", n.iterations}};
  o["ranks"] = groups(n.ranks);
  o["hosts"] = groups(n.hosts);
  o["all"] = group(n.all);
  o["rank_relative_sd"] = n.rank_spread;
  o["block_us"] = us(n.block_s);
  const SynchronizedLoop& l = n.loop;
  o["synchronized"] = {
      {"rounds", l.rounds},
      {"barrier_us", us(l.barrier_s)},
      {"slowest_us", {{"measured", us(l.slowest_s)}, {"predicted", us(l.predicted_slowest_s)}}},
      {"round_us", {{"measured", us(l.round_s)}, {"predicted", us(l.predicted_round_s)}}}};
  if (n.tail)
    o["tail"] = {{"from_us", us(n.tail->from_s)},
                 {"part", n.tail->part},
                 {"shape", n.tail->shape},
                 {"scale_us", us(n.tail->scale_s)},
                 {"samples", n.tail->samples}};
  o["at_scale"] = Object::array();
  for (const NoiseAtScale& s : n.at_scale) {
    Object at{{"ranks", s.ranks}, {"delay_us", us(s.delay_s)}};
    if (s.tail_s) at["tail_delay_us"] = us(*s.tail_s);
    at["longer_part"] = s.longer;
    at["beyond_seen"] = s.beyond_seen;
    o["at_scale"].push_back(at);
  }
  return o.dump(2) + "\n";
}

}  // namespace shardmark
