// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/core.h>

#include <io/checkpoint/checksum.hpp>
#include <miniapp/checkpoint/file_group.hpp>

namespace shardmark {
namespace {

std::vector<std::vector<ElementRange>> maps_of_all(Peers& peers,
                                                   const std::vector<ElementRange>& owned) {
  const std::string mine(reinterpret_cast<const char*>(owned.data()),
                         owned.size() * sizeof(ElementRange));
  std::vector<std::vector<ElementRange>> maps;
  for (const std::string& bytes : peers.gather(mine)) {
    std::vector<ElementRange> map(bytes.size() / sizeof(ElementRange));
    if (!map.empty()) std::memcpy(map.data(), bytes.data(), bytes.size());
    maps.push_back(std::move(map));
  }
  return maps;
}

}  // namespace

FileGroup::FileGroup(MPI_Comm world, Peers& peers, std::int64_t ranks_per_file,
                     const std::vector<ElementRange>& owned) {
  const auto size = static_cast<std::int64_t>(peers.size());
  const auto k = static_cast<int>(ranks_per_file == 0 ? size : std::min(ranks_per_file, size));
  const int mine = peers.rank() / k;
  if (ranks_per_file != 1) comm_ = OwnedComm::split(world, mine, peers.rank());
  const auto maps = maps_of_all(peers, owned);
  for (int r = 0; r < peers.size(); ++r) {
    const int file = r / k;
    CheckpointPart part;
    part.rank = r, part.file = file;
    part.map = maps[r];
    for (const ElementRange& range : part.map) part.elems += range.elems;
    if (r % k == 0) {
      files_.push_back({ranks_per_file == 0 ? "shared.h5"
                        : k == 1            ? fmt::format("rank-{:05}.h5", r)
                                            : fmt::format("ranks-{:05}.h5", r),
                        0,
                        {}});
    } else {
      const CheckpointPart& before = parts_.back();
      part.offset = before.offset + before.elems;
      part.first_block = before.first_block + checksum_blocks(before.elems);
    }
    if (file == mine) {
      place_.file_elems = part.offset + part.elems;
      place_.file_blocks = part.first_block + checksum_blocks(part.elems);
    }
    parts_.push_back(std::move(part));
  }
  const CheckpointPart& own = parts_[peers.rank()];
  place_.path = files_[mine].name;
  place_.comm = comm_.get();
  place_.offset = own.offset, place_.elems = own.elems, place_.first_block = own.first_block;
}

PartPlace FileGroup::place(const std::string& folder) const {
  PartPlace place = place_;
  place.path = folder + "/" + place_.path;
  return place;
}

}  // namespace shardmark
