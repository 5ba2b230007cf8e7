// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <fmt/core.h>
#include <sys/uio.h>
#include <unistd.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/shm/peer_memory.hpp>
#include <comm/shm/shared_mapping.hpp>
#include <core/error.hpp>

namespace shardmark {

PeerMemory::PeerMemory(MPI_Comm comm) {
  int rank = 0, size = 1;
  SHARDMARK_MPI(MPI_Comm_rank(comm, &rank));
  SHARDMARK_MPI(MPI_Comm_size(comm, &size));
  // Each rank tries to read a sample value from the memory of its neighbour.
  struct Sample {
    std::int64_t process, value;
    std::uint64_t address;
  };
  const std::int64_t value = getpid() * std::int64_t{1'000'003} + rank;
  const Sample own{getpid(), value, reinterpret_cast<std::uintptr_t>(&value)};
  std::vector<Sample> samples(static_cast<std::size_t>(size));
  SHARDMARK_MPI(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, samples.data(), sizeof own, MPI_BYTE, comm));
  for (const Sample& s : samples) processes_.push_back(s.process);
  const int neighbour = (rank + 1) % size;
  std::int64_t seen = -1;
  try {
    read(neighbour, samples[static_cast<std::size_t>(neighbour)].address, &seen, sizeof seen);
  } catch (const CommError&) {  // not readable; `seen` keeps its value
  }
  readable_ = true_on_all_ranks(comm, seen == samples[static_cast<std::size_t>(neighbour)].value);
}

void PeerMemory::read(int rank, std::uint64_t address, void* to, std::int64_t bytes) const {
  while (bytes > 0) {
    const iovec into{to, static_cast<std::size_t>(bytes)};
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address of another process
    const iovec from{reinterpret_cast<void*>(address), static_cast<std::size_t>(bytes)};
    const std::int64_t process = processes_[static_cast<std::size_t>(rank)];
    const ssize_t got = process_vm_readv(static_cast<pid_t>(process), &into, 1, &from, 1, 0);
    if (got <= 0)
      throw CommError(
          fmt::format("memory of rank {} of the group (pid {}): cannot be read: {}: "
                      "check that the process still runs",
                      rank, process, std::strerror(errno)));
    to = static_cast<char*>(to) + got;
    address += static_cast<std::uint64_t>(got);
    bytes -= got;
  }
}

}  // namespace shardmark
