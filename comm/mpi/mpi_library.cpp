// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>

#include <mpi.h>

#include <comm/mpi/mpi_check.hpp>
#include <comm/mpi/mpi_library.hpp>

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

}  // namespace shardmark
