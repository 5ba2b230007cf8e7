// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/part_writer.hpp>

namespace shardmark {
namespace {

// Elements of a source one run after another, whatever slices they lie in.
class SliceReader {
 public:
  explicit SliceReader(const StateSource& source)
      : slices_(source.slices), size_(dtype_bytes(source.dtype)) {}

  /// The next `elems`: where they lie, or, where they are in several slices, a copy that holds
  /// until the next call.
  std::span<const std::byte> next(std::int64_t elems) {
    const auto bytes = static_cast<std::size_t>(elems * size_);
    while (elems > 0 && at_ == slices_[slice_].elems) ++slice_, at_ = 0;
    if (elems == 0 || at_ + elems <= slices_[slice_].elems) {
      const std::byte* data = elems == 0 ? nullptr : slices_[slice_].data + at_ * size_;
      at_ += elems;
      return {data, bytes};
    }
    copy_.resize(bytes);
    for (std::int64_t done = 0; done < elems;) {
      const StateSlice& s = slices_[slice_];
      const std::int64_t n = std::min(elems - done, s.elems - at_);
      std::memcpy(copy_.data() + done * size_, s.data + at_ * size_,
                  static_cast<std::size_t>(n * size_));
      done += n, at_ += n;
      if (at_ == s.elems) ++slice_, at_ = 0;
    }
    return copy_;
  }

 private:
  std::span<const StateSlice> slices_;
  std::int64_t size_;
  std::size_t slice_ = 0;
  std::int64_t at_ = 0;  // in the slice
  std::vector<std::byte> copy_;
};

// A block at a time of a file of one's own: it is hashed and copied while it is in cache. A
// collective transfer is worth its cost for more than that only.
constexpr std::int64_t blocks_at_once(bool shared) {
  return shared ? 32 : 1;
}

}  // namespace

std::string checksum_dataset(State state) {
  return "checksums/" + std::string(to_string(state));
}

WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources) {
  const bool shared = place.access.comm != MPI_COMM_NULL;
  const std::int64_t at_once = blocks_at_once(shared) * checksum_block_elems;
  const std::int64_t limit = shared ? place.largest_part : place.elems;
  WrittenPart written;
  written.collective = shared;
  Hdf5File file = Hdf5File::create(place.path, place.access);
  file.create_group("checksums");
  std::vector<std::uint64_t> sums;
  for (const StateSource& source : sources) {
    const auto s = static_cast<std::size_t>(source.state);
    const std::int64_t size = dtype_bytes(source.dtype);
    Hdf5Dataset values =
        file.create_dataset(std::string(to_string(source.state)), source.dtype, place.file_elems);
    SliceReader reader(source);
    sums.clear();
    for (std::int64_t at = 0; at < limit; at += at_once) {
      const std::int64_t elems = std::clamp<std::int64_t>(place.elems - at, 0, at_once);
      const auto bytes = reader.next(elems);
      const auto block = static_cast<std::size_t>(checksum_block_elems * size);
      for (std::size_t b = 0; b < bytes.size(); b += block)
        sums.push_back(xxh3(bytes.subspan(b, std::min(block, bytes.size() - b))));
      values.write(place.offset + at, elems, bytes.data());
      if (shared) written.collective = written.collective && values.last_was_collective();
    }
    written.digest[s] = xxh3(std::span<const std::uint64_t>(sums));
    written.first_byte[s] = values.first_byte();
    values.close();
    Hdf5Dataset checksums =
        file.create_dataset(checksum_dataset(source.state), Dtype::int64, place.file_blocks);
    checksums.write(place.first_block, static_cast<std::int64_t>(sums.size()), sums.data());
    checksums.close();
  }
  file.close();
  return written;
}

}  // namespace shardmark
