// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <set>

#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <core/cpu_set.hpp>
#include <core/kokkos_shim.hpp>
#include <core/nn/kernels/threads.hpp>
#include <core/nn/products/library.hpp>
#include <core/text.hpp>
#include <core/text_of.hpp>
#include <io/checkpoint/hdf5.hpp>
#include <miniapp/provenance/environment.hpp>
#include <miniapp/provenance/machine.hpp>
#include <miniapp/provenance/provenance.hpp>
#include <miniapp/provenance/version.hpp>

namespace shardmark {

namespace {

std::string mpi_standard() {
  int version = 0, subversion = 0;
  SHARDMARK_MPI(MPI_Get_version(&version, &subversion));
  return fmt::format("{}.{}", version, subversion);
}

constexpr char separator = '\n';  // cannot occur in a line of the environment

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (std::string line : lines) {
    std::replace(line.begin(), line.end(), separator, ' ');
    text += line + separator;
  }
  return text;
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = text.find(separator, at);
    lines.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return lines;
}

}  // namespace

std::map<std::string, std::string> library_versions() {
  std::map<std::string, std::string> versions{
      {"shardmark", version()},
      {"kokkos", fmt::format("{}.{}.{}", KOKKOS_VERSION / 10000, KOKKOS_VERSION / 100 % 100,
                             KOKKOS_VERSION % 100)},
      {"execution_space", Space::name()},
      {"mpi", mpi_library()},
      {"mpi_standard", mpi_standard()},
      {"matmul", matmul_library()},
      {"hdf5", hdf5_version()},
      {"compiler", SHARDMARK_TEXT_OF(SHARDMARK_COMPILER_ID SHARDMARK_COMPILER_VERSION)},
      {"system", operating_system()}};
  if (const std::string nccl = nccl_library(); !nccl.empty()) {
    versions["nccl"] = nccl;
    versions["mpi_device_buffers"] = mpi_takes_device_buffers() ? "taken" : "staged";
  }
  return versions;
}

std::vector<RankInfo> rank_infos(const Node& node, Peers& peers) {
  const auto hosts = peers.gather(node.host);
  const auto processors = peers.gather(processor_model());
  const auto cores = peers.gather(node.own_mask);
  const auto nodes = peers.gather(numa_nodes(node.own_mask));
  const auto bindings = peers.gather(openmp_binding());
  const auto environments = peers.gather(joined(relevant_environment(environ)));
  struct Numbers {
    int pid, kernel_threads, matmul_threads;
  };
  // A device's kernels are launched by one thread of the host.
  const int kernel_threads = device_is_host ? concurrency(Space()) : 1;
  const auto numbers =
      peers.gather(Numbers{static_cast<int>(getpid()), kernel_threads, matmul_threads()});
  std::vector<RankInfo> infos;
  for (std::size_t r = 0; r < hosts.size(); ++r)
    infos.push_back({hosts[r], processors[r], cores[r], nodes[r], numbers[r].pid,
                     numbers[r].kernel_threads, numbers[r].matmul_threads, split(environments[r]),
                     bindings[r]});
  return infos;
}

namespace {

// Ranks of one host whose threads run on the same cores.
struct Share {
  std::string host;
  std::set<int> cores;
  std::vector<int> ranks;
  int threads = 0;
  bool too_few() const { return threads > static_cast<int>(cores.size()) && !cores.empty(); }
};

std::string name_ranks(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", format_numbers(ranks));
}

std::vector<Share> by_mask(const std::vector<RankInfo>& ranks) {
  std::map<std::pair<std::string, std::string>, Share> shares;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const RankInfo& rank = ranks[r];
    Share& share = shares[{rank.host, rank.cores}];
    const std::vector<int> cores = parse_numbers(rank.cores);
    share.host = rank.host;
    share.cores.insert(cores.begin(), cores.end());
    share.ranks.push_back(static_cast<int>(r));
    share.threads += rank.threads();
  }
  std::vector<Share> list;
  for (auto& [key, share] : shares) list.push_back(std::move(share));
  return list;
}

bool overlap(const Share& a, const Share& b) {
  return a.host == b.host &&
         std::ranges::any_of(a.cores, [&](int core) { return b.cores.contains(core); });
}

// Merges masks that overlap until none do.
std::vector<Share> merged(std::vector<Share> shares) {
  for (std::size_t i = 0; i < shares.size();) {
    const auto other =
        std::find_if(shares.begin() + static_cast<std::ptrdiff_t>(i) + 1, shares.end(),
                     [&](const Share& s) { return overlap(shares[i], s); });
    if (other == shares.end()) {
      ++i;
      continue;
    }
    shares[i].cores.insert(other->cores.begin(), other->cores.end());
    shares[i].ranks.insert(shares[i].ranks.end(), other->ranks.begin(), other->ranks.end());
    shares[i].threads += other->threads;
    shares.erase(other);
  }
  for (Share& s : shares) std::ranges::sort(s.ranks);
  return shares;
}

std::string sharing(const Share& s) {
  const std::string cores = format_numbers({s.cores.begin(), s.cores.end()});
  const std::string on =
      fmt::format("{} on {} of {} ({})", plural(s.threads, "thread"),
                  plural(static_cast<std::int64_t>(s.cores.size()), "core"), s.host, cores);
  if (s.ranks.size() == 1)
    return fmt::format("{} runs {}: set OMP_NUM_THREADS, or give it more cores",
                       name_ranks(s.ranks), on);
  return fmt::format("{} share cores: {}: times mean little; bind each rank to its own cores",
                     name_ranks(s.ranks), on);
}

void add_sharing(const std::vector<RankInfo>& ranks, std::vector<std::string>& list) {
  const std::vector<Share> masks = by_mask(ranks);
  std::set<int> reported;
  for (const Share& s : masks) {
    if (!s.too_few()) continue;
    list.push_back(sharing(s));
    reported.insert(s.ranks.begin(), s.ranks.end());
  }
  for (const Share& s : merged(masks))
    if (s.too_few() && std::ranges::none_of(s.ranks, [&](int r) { return reported.contains(r); }))
      list.push_back(sharing(s));
}

// A rank that may run on several NUMA nodes although one has enough cores for its threads.
bool wanders(const RankInfo& rank) {
  const std::size_t nodes = parse_numbers(rank.numa_nodes).size();
  const std::size_t cores = parse_numbers(rank.cores).size();
  return nodes > 1 && static_cast<std::size_t>(rank.threads()) <= cores / nodes;
}

// Ranks whose OpenMP lets several threads move, or puts all of them on the place of the first.
void add_binding(const std::vector<RankInfo>& ranks, std::vector<std::string>& list) {
  std::vector<int> free, crowded;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (ranks[r].threads() < 2) continue;
    if (ranks[r].thread_binding == "false") free.push_back(static_cast<int>(r));
    if (ranks[r].thread_binding == "primary") crowded.push_back(static_cast<int>(r));
  }
  if (!free.empty())
    list.push_back(fmt::format(
        "{}: OpenMP does not bind the threads, so they may move away from their memory: "
        "set OMP_PROC_BIND=spread and OMP_PLACES=cores",
        name_ranks(free)));
  if (!crowded.empty())
    list.push_back(
        fmt::format("{}: OpenMP binds all threads to the place of the first: set "
                    "OMP_PROC_BIND=spread instead of primary",
                    name_ranks(crowded)));
}

constexpr std::size_t most_warnings = 8;

}  // namespace

std::vector<std::string> placement_warnings(const std::vector<RankInfo>& ranks) {
  std::vector<std::string> list;
  add_sharing(ranks, list);
  std::vector<int> wandering;
  std::map<std::string, std::vector<int>> models;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    if (wanders(ranks[r])) wandering.push_back(static_cast<int>(r));
    models[ranks[r].processor].push_back(static_cast<int>(r));
  }
  if (list.size() > most_warnings) {
    const std::size_t more = list.size() - most_warnings;
    list.resize(most_warnings);
    list.push_back(fmt::format("… and {} more like these", more));
  }
  add_binding(ranks, list);
  if (!wandering.empty())
    list.push_back(fmt::format(
        "{} may run on several NUMA nodes (rank {}: {}), so memory may be far from where it is "
        "used: bind each rank to one",
        name_ranks(wandering), wandering[0], ranks[wandering[0]].numa_nodes));
  if (models.size() > 1) {
    std::string text;
    for (const auto& [model, of] : models)
      add_item(text, fmt::format("{} ({})", model, name_ranks(of)));
    list.push_back("ranks run on different processors; the slowest sets the pace: " + text);
  }
  return list;
}

}  // namespace shardmark
