// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <mpi.h>

#include <comm/mpi/mpi_calls.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_library.hpp>
#include <core/error.hpp>

namespace shardmark {

std::string mpi_library_name(const char* text, int size) {
  std::string name(text, static_cast<std::size_t>(std::max(size, 0)));
  // Open MPI's name is followed by who built it, and where.
  name = name.substr(0, name.find_first_of(std::string_view("\0\n,", 3)));
  // MPICH: "MPICH Version:\t4.0.2"
  std::replace_if(
      name.begin(), name.end(), [](unsigned char c) { return c < ' '; }, ' ');
  while (name.ends_with(' ')) name.pop_back();
  return name;
}

std::string mpi_library() {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  SHARDMARK_MPI(MPI_Get_library_version(text.data(), &length));
  return mpi_library_name(text.data(), length);
}

bool is_of_mpich(std::string_view library) {
  constexpr std::array<std::string_view, 3> parts{"MPICH", "MVAPICH", "Intel(R) MPI"};
  return std::any_of(parts.begin(), parts.end(), [&](std::string_view part) {
    return library.find(part) != std::string_view::npos;
  });
}

#if defined(MPIX_GPU_SUPPORT_CUDA)
bool mpi_takes_device_buffers() {
  int running = 0, supported = 0;
  SHARDMARK_MPI(MPI_Initialized(&running));
  if (!running) return false;  // MPICH ends the process if it is asked now
  SHARDMARK_MPI(MPIX_GPU_query_support(MPIX_GPU_SUPPORT_CUDA, &supported));
  return supported != 0;
}
#else
bool mpi_takes_device_buffers() {
  return false;
}
#endif

bool done_by_mpi_alone(const Collective& c, int rank, int size, const CommOptions& options) {
  switch (route_of(c, size, options).kind) {
    case RouteKind::barrier:
    case RouteKind::all_to_all:
    case RouteKind::all_to_all_parts:
    case RouteKind::all_gather: return true;
    case RouteKind::broadcast: return rank != c.root || c.send == c.recv;
    case RouteKind::all_reduce:
    case RouteKind::reduce: return c.reduction != Reduction::average;
    default: return false;
  }
}

namespace {

void set_unless_set(const char* name, const char* value) {
  if (setenv(name, value, 0) != 0)
    throw CommError(std::string(name) + " = " + value + ": cannot be set: out of memory");
}

int number_in_environment(const char* name) {
  const char* const text = std::getenv(name);
  return text == nullptr ? 0 : std::atoi(text);
}

}  // namespace

bool only_tcp_between_nodes() {
  std::error_code ignored;
  return number_in_environment("PMI_SIZE") > number_in_environment("MPI_LOCALNRANKS") &&
         number_in_environment("MPI_LOCALNRANKS") > 0 &&
         !std::filesystem::exists("/sys/class/infiniband", ignored);
}

void tune_mpich() {
  if (!is_of_mpich(mpi_library())) return;
  // Pairwise exchange sends (N-1)/N of the array per rank; MPICH's default sends it log N times.
  set_unless_set("MPIR_CVAR_IREDUCE_SCATTER_BLOCK_INTRA_ALGORITHM", "sched_pairwise");
  if (!only_tcp_between_nodes()) return;
  // The handshake of a rendezvous waits behind the data that is under way in both directions, so a
  // link that is busy in both is used to half or two thirds. Pieces are sent without one.
  set_unless_set("UCX_RNDV_THRESH", "2m");
  // UCX's own 8 KiB need a system call each, which costs more than the copy of the data.
  for (const char* name : {"UCX_TCP_TX_SEG_SIZE", "UCX_TCP_RX_SEG_SIZE"})
    set_unless_set(name, "256k");
}

}  // namespace shardmark
