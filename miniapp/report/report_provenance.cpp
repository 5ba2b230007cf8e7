// SPDX-License-Identifier: Apache-2.0
#include <map>
#include <tuple>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/hash.hpp>
#include <miniapp/provenance/environment.hpp>
#include <miniapp/report/report_provenance.hpp>

namespace shardmark {

namespace {

auto key_of(const RankInfo& r) {
  return std::tie(r.host, r.processor, r.cores, r.numa_nodes, r.kernel_threads, r.matmul_threads);
}

constexpr std::size_t most_values = 4;

std::string values_of(const VariableOfRanks& v) {
  std::string text;
  for (std::size_t i = 0; i < v.values.size() && i < most_values; ++i)
    text += fmt::format("{}{} (rank {})", i == 0 ? "" : ", ", v.values[i].first,
                        format_numbers(v.values[i].second));
  if (v.values.size() > most_values) text += fmt::format(", … {} values in all", v.values.size());
  return text;
}

std::string software_line(const Result& r) {
  const auto version = [&](const char* name) {
    const auto it = r.versions.find(name);
    return it == r.versions.end() ? std::string("unknown") : it->second;
  };
  return fmt::format("ShardMark {}, Kokkos {} ({}), {}, {} (MPI {}), {}, {}", version("shardmark"),
                     version("kokkos"), version("execution_space"), version("matmul"),
                     version("mpi"), version("mpi_standard"), version("compiler"),
                     version("system"));
}

}  // namespace

std::vector<RankGroup> rank_groups(const std::vector<RankInfo>& ranks) {
  std::vector<RankGroup> groups;
  std::map<decltype(key_of(ranks[0])), std::size_t> group_of;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const auto [at, is_new] = group_of.try_emplace(key_of(ranks[r]), groups.size());
    if (is_new) groups.push_back({{}, ranks[r]});
    groups[at->second].ranks.push_back(static_cast<int>(r));
  }
  return groups;
}

std::vector<std::string> environment_lines(const Result& r) {
  std::vector<std::string> lines;
  for (const VariableOfRanks& v : by_variable(r.ranks))
    lines.push_back(printable(
        fmt::format("{}={}", v.name, v.same_everywhere ? v.values[0].first : values_of(v))));
  return lines;
}

void provenance_tables(Out out, const Result& r) {
  fmt::format_to(out, "\nWhere it ran\n");
  fmt::format_to(out, "  {:<12}{:<16}{:<12}{:<8}{:>8}{:>9}   {}\n", "ranks", "host", "cores",
                 "NUMA", "kernels", "matmul", "processor");
  const auto groups = rank_groups(r.ranks);
  for (std::size_t i = 0; i < groups.size() && i < most_rank_rows; ++i) {
    const RankInfo& of = groups[i].of;
    fmt::format_to(out, "  {:<12}{:<16}{:<12}{:<8}{:>8}{:>9}   {}\n",
                   format_numbers(groups[i].ranks), of.host, of.cores,
                   of.numa_nodes.empty() ? "-" : of.numa_nodes, of.kernel_threads,
                   of.matmul_threads, of.processor);
  }
  if (groups.size() > most_rank_rows)
    fmt::format_to(out, "  … and {} more rows: report.json has every rank\n",
                   groups.size() - most_rank_rows);
  fmt::format_to(out, "  software     {}\n", software_line(r));
  const char* title = "environment";
  for (const std::string& line : environment_lines(r)) {
    fmt::format_to(out, "  {:<12} {}\n", title, line);
    title = "";
  }
}

std::string report_dump(const nlohmann::ordered_json& report) {
  return report.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

// Parsed again first, so that numbers and texts are those that a reader of the file has.
nlohmann::json report_checksum(const nlohmann::ordered_json& report, const std::string& losses) {
  return report_checksum(nlohmann::json::parse(report_dump(report)), losses);
}

nlohmann::json report_checksum(nlohmann::json report, const std::string& losses) {
  report.erase("checksum");
  return {{"report", hash_hex(report.dump(-1, ' ', true))}, {"losses", hash_hex(losses)}};
}

}  // namespace shardmark
