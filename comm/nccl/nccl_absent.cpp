// SPDX-License-Identifier: Apache-2.0
// The functions of nccl_headers.hpp in a build without NCCL.
#include <comm/nccl/nccl_headers.hpp>
#include <core/error.hpp>

namespace shardmark {

std::unique_ptr<Communicator> make_nccl_communicator(MPI_Comm, const CommOptions&) {
  throw CommError(
      "comm.backend = nccl: this build has no NCCL: choose auto or mpi, or configure with a Kokkos "
      "that was built for CUDA and -DSHARDMARK_ENABLE_NCCL=ON");
}

std::unique_ptr<Communicator> stage_through_host(std::unique_ptr<Communicator>,
                                                 const CommOptions&) {
  throw CommError(
      "device buffers with a back-end of the host: this build has no CUDA code: configure with "
      "NCCL");
}

bool stream_is_idle(void*) {
  return true;
}

std::string nccl_library() {
  return {};
}

}  // namespace shardmark
