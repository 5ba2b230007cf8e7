// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <comm/idle.hpp>

namespace shardmark {

/// MPI_Waitall for `count` requests that pauses between polls as `idle` says. MPI's own spins and
/// keeps the core from a rank that it may wait for. Throws CommError.
void wait_all(MPI_Request* requests, int count, const Idle& idle);

}  // namespace shardmark
