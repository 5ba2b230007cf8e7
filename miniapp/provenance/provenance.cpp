// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>
#include <mpi.h>
#include <unistd.h>

#include <comm/mpi/device_buffers.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <comm/nccl/nccl_headers.hpp>
#include <core/cpu_set.hpp>
#include <core/kokkos_shim.hpp>
#include <core/nn/kernels/threads.hpp>
#include <core/nn/products/library.hpp>
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

}  // namespace shardmark
