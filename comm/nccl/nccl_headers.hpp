// SPDX-License-Identifier: Apache-2.0
// The entry points of the NCCL back-end. A build without NCCL implements them in nccl_absent.cpp.
#pragma once

#include <memory>
#include <string>

#include <mpi.h>

#include <comm/comm_options.hpp>
#include <comm/communicator.hpp>

namespace shardmark {

/// Collective over `comm`, which stays the caller's and introduces the ranks to each other. Every
/// rank must have selected its device before. Throws CommError, always in a build without NCCL.
std::unique_ptr<Communicator> make_nccl_communicator(MPI_Comm comm, const CommOptions& options);

/// Wraps `inner`, a back-end of the host, so that it takes device buffers by way of pinned host
/// memory. Not collective. Throws CommError in a build without NCCL.
std::unique_ptr<Communicator> stage_through_host(std::unique_ptr<Communicator> inner,
                                                 const CommOptions& options);

/// Whether all work queued on `stream` (a device::Stream; null is the default stream) is done.
/// Never blocks; true in a build without NCCL. Throws CommError, also for errors of earlier work on
/// the device.
bool stream_is_idle(void* stream);

/// For example "NCCL 2.28.9"; empty in a build without NCCL.
std::string nccl_library();

}  // namespace shardmark
