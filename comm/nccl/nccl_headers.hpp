// SPDX-License-Identifier: Apache-2.0
// The way in to the NCCL back-end. A build without NCCL has the same functions, which refuse.
#pragma once

#include <memory>
#include <string>

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Collective over `comm`, which tells the ranks of each other and stays the caller's. Every rank
/// has made its device the current one. Throws CommError; always where there is no NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(MPI_Comm comm, const MpiOptions& options);

/// `inner` with buffers of the device, which go through pinned memory of the host.
std::unique_ptr<Communicator> stage_through_host(std::unique_ptr<Communicator> inner,
                                                 const MpiOptions& options);

/// Whether all is done that the stream (a cudaStream_t; null: the default one) was given. Never
/// waits. True where there is no NCCL. Throws CommError, also of what failed on the device.
bool stream_is_idle(void* stream);

/// "NCCL 2.28.9", or empty where there is none.
std::string nccl_library();

}  // namespace shardmark
