// SPDX-License-Identifier: Apache-2.0
// Which ranks share a file of a checkpoint (k neighbours, one rank alone, or all), and where the
// part of each rank is in the file.
#pragma once

#include <string>
#include <vector>

#include <mpi.h>

#include <comm/mpi/mpi_types.hpp>
#include <io/checkpoint/manifest.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <miniapp/ranks/peers.hpp>

namespace shardmark {

/// The ranks that write one file with this rank, and the layout of all files.
class FileGroup {
 public:
  /// Collective over `world`. `ranks_per_file` 0 stands for all ranks; with 1 no communicator is
  /// made. `owned` are the elements that this rank writes.
  FileGroup(MPI_Comm world, Peers& peers, std::int64_t ranks_per_file,
            const std::vector<ElementRange>& owned);
  FileGroup(const FileGroup&) = delete;
  FileGroup& operator=(const FileGroup&) = delete;

  /// This rank's place in its file, in `folder`.
  PartPlace place(const std::string& folder) const;
  /// All files and parts, without sizes and checksums, which are known only once they are written.
  const std::vector<CheckpointFile>& files() const { return files_; }
  const std::vector<CheckpointPart>& parts() const { return parts_; }

 private:
  OwnedComm comm_;
  std::vector<CheckpointFile> files_;
  std::vector<CheckpointPart> parts_;  // by rank
  PartPlace place_;
};

}  // namespace shardmark
