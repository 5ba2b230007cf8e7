// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include <comm/mpi/mpi_library.hpp>
#include <comm/mpi/mpi_tuning.hpp>
#include <core/error.hpp>

namespace shardmark {
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
