// SPDX-License-Identifier: Apache-2.0
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/node.hpp>
#include <comm/shm/shared_mapping.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>
#include <core/owned_fd.hpp>

namespace shardmark {

namespace {

bool on_one_node(MPI_Comm comm) {
  return true_on_all_ranks(comm, comm_size(ranks_of_node(comm).get()) == comm_size(comm));
}

}  // namespace

bool true_on_all_ranks(MPI_Comm comm, bool mine) {
  int all = mine ? 1 : 0;
  SHARDMARK_MPI(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, comm));
  return all == 1;
}

SharedMapping::~SharedMapping() {
  if (base_ != nullptr) munmap(base_, static_cast<std::size_t>(bytes_));
}

bool SharedMapping::map(int file) {
  void* const at =
      mmap(nullptr, static_cast<std::size_t>(bytes_), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (at == MAP_FAILED) return false;
  base_ = static_cast<char*>(at);
  return true;
}

bool SharedMapping::map_file_of(std::int64_t process, std::int64_t handle) {
  if (handle < 0) return false;
  const OwnedFd file(
      open(fmt::format("/proc/{}/fd/{}", process, handle).c_str(), O_RDWR | O_CLOEXEC));
  struct stat about;
  return file && fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) &&
         about.st_size == bytes_ && map(file.get());
}

SharedMapping SharedMapping::make(MPI_Comm comm, std::int64_t bytes, std::string& why_not) {
  if (!on_one_node(comm)) {
    why_not = "the ranks do not share one node";
    return {};
  }
  const int rank = comm_rank(comm);
  SharedMapping mapping;
  mapping.bytes_ = bytes;
  // Rank 0 makes the file; the others open it by process id and descriptor. In another process
  // namespace that process id may be a different process, so a token proves that it is the right
  // file.
  struct Place {
    std::int64_t process, handle;
    std::uint64_t token;
  } place{getpid(), -1, static_cast<std::uint64_t>(monotonic_ns())};
  const OwnedFd file(rank == 0 ? memfd_create("shardmark", MFD_CLOEXEC) : -1);
  if (file && ftruncate(file.get(), bytes) == 0 && mapping.map(file.get())) {
    place.handle = file.get();
    *reinterpret_cast<std::uint64_t*>(mapping.base()) = place.token;
  }
  SHARDMARK_MPI(MPI_Bcast(&place, sizeof place, MPI_BYTE, 0, comm));
  const bool mapped =
      rank == 0 ? place.handle >= 0 : mapping.map_file_of(place.process, place.handle);
  if (!true_on_all_ranks(
          comm, mapped && *reinterpret_cast<std::uint64_t*>(mapping.base()) == place.token)) {
    why_not = "the ranks may not map each other's memory (memfd_create, /proc)";
    return {};
  }
  if (rank == 0) *reinterpret_cast<std::uint64_t*>(mapping.base()) = 0;
  SHARDMARK_MPI(MPI_Barrier(comm));
  return mapping;
}

PeerMemory::PeerMemory(MPI_Comm comm) {
  const int rank = comm_rank(comm), size = comm_size(comm);
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
