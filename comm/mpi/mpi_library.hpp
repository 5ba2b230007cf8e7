// SPDX-License-Identifier: Apache-2.0
// The MPI library that this process runs with: its name, and how it is used.
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// "MPICH Version: 4.0.2", "Open MPI v4.1.4": the first line of MPI_Get_library_version, up to the
/// first comma, without control characters. It works before MPI_Init. Throws CommError.
std::string mpi_library();

/// Returns the name that mpi_library() finds in the first `size` characters of `text`. Some
/// releases of Open MPI include the terminating NUL in the size.
std::string mpi_library_name(const char* text, int size);

/// Whether the library of this name reads MPICH's variables: MPICH, Cray MPICH, MVAPICH and
/// Intel MPI are built from the same sources.
bool is_of_mpich(std::string_view library);

}  // namespace shardmark
