// SPDX-License-Identifier: Apache-2.0
#include <array>

#include <io/checkpoint/together.hpp>

namespace shardmark {

bool Together::first() const {
  if (comm_ == MPI_COMM_NULL) return true;
  int rank = 0;
  if (MPI_Comm_rank(comm_, &rank) != MPI_SUCCESS) throw CommError(file_ + ": MPI_Comm_rank failed");
  return rank == 0;
}

void Together::broadcast(void* value, std::size_t bytes) const {
  if (MPI_Bcast(value, static_cast<int>(bytes), MPI_BYTE, 0, comm_) != MPI_SUCCESS)
    throw CommError(file_ + ": MPI_Bcast failed between the ranks that share it");
}

void Together::agree(const Failure& mine) const {
  int rank = 0, size = 0, lowest = 0;
  int good = MPI_Comm_rank(comm_, &rank) | MPI_Comm_size(comm_, &size);
  const int own = mine.status == ExitStatus::valid ? size : rank;
  good |= MPI_Allreduce(&own, &lowest, 1, MPI_INT, MPI_MIN, comm_);
  if (good != MPI_SUCCESS)
    throw CommError(file_ + ": MPI_Allreduce failed between the ranks that share it");
  if (lowest == size) return;
  std::array<int, 2> about{static_cast<int>(mine.status), static_cast<int>(mine.what.size())};
  const auto tell = [&](void* data, int bytes) {
    if (MPI_Bcast(data, bytes, MPI_BYTE, lowest, comm_) != MPI_SUCCESS)
      throw CommError(file_ + ": MPI_Bcast failed between the ranks that share it");
  };
  tell(about.data(), sizeof about);
  std::string what = mine.what;
  what.resize(static_cast<std::size_t>(about[1]));
  tell(what.data(), about[1]);
  if (about[0] == static_cast<int>(ExitStatus::output)) throw IoError(what);
  throw Error(static_cast<ExitStatus>(about[0]), what);
}

}  // namespace shardmark
