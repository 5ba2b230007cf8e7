// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <optional>

#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/direct_file.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/together.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {
namespace {

// Returns the elements of a source one run after another, across the boundaries of its slices.
class SliceReader {
 public:
  explicit SliceReader(const StateSource& source)
      : slices_(source.slices), size_(dtype_bytes(source.dtype)) {}

  void copy(std::int64_t elems, std::byte* into) {
    for (std::int64_t done = 0; done < elems;) {
      const StateSlice& s = slices_[slice_];
      const std::int64_t n = std::min(elems - done, s.elems - at_);
      fetch(s, into + done * size_, s.data + at_ * size_, n * size_);
      done += n, at_ += n;
      if (at_ == s.elems) ++slice_, at_ = 0;
    }
  }

 private:
  std::span<const StateSlice> slices_;
  std::int64_t size_;
  std::size_t slice_ = 0;
  std::int64_t at_ = 0;  // the position in the current slice
};

// Copies the next `elems` elements and hashes them block by block while they are in cache.
void take(SliceReader& reader, std::int64_t elems, std::int64_t size, std::byte* into,
          std::vector<std::uint64_t>& sums) {
  for (std::int64_t at = 0; at < elems; at += checksum_block_elems) {
    const std::int64_t n = std::min(checksum_block_elems, elems - at);
    sums.push_back(xxh3_while_fetched(n * size, [&](std::int64_t in_block, std::int64_t bytes) {
      std::byte* piece = into + at * size + in_block;
      reader.copy(bytes / size, piece);
      return piece;
    }));
  }
}

// Writes a file of one rank: the values go straight to the place that HDF5 reserved for them.
void write_alone(const StateSource& source, const PartPlace& place, std::int64_t first_byte,
                 DirectFile& file, std::vector<std::uint64_t>& sums) {
  const std::int64_t size = dtype_bytes(source.dtype), piece = DirectFile::piece_bytes / size;
  SliceReader reader(source);
  for (std::int64_t at = 0; at < place.elems; at += piece) {
    const std::int64_t elems = std::min(piece, place.elems - at);
    take(reader, elems, size, file.room(), sums);
    file.write(first_byte + at * size, elems * size,
               "dataset " + std::string(to_string(source.state)));
  }
}

// Writes a file of several ranks. All ranks transfer equally often, in pieces far below MPI's limit
// of 2 GiB. Returns true if every transfer really was collective.
bool write_shared(const StateSource& source, const PartPlace& place, const Together& all,
                  Hdf5Dataset& values, std::vector<std::uint64_t>& sums) {
  constexpr std::int64_t piece = 32 * checksum_block_elems;
  const std::int64_t size = dtype_bytes(source.dtype);
  std::vector<std::byte> buffer(
      static_cast<std::size_t>(std::min(piece, place.largest_part) * size));
  SliceReader reader(source);
  bool collective = true;
  for (std::int64_t at = 0; at < place.largest_part; at += piece) {
    const std::int64_t elems = std::clamp<std::int64_t>(place.elems - at, 0, piece);
    take(reader, elems, size, buffer.data(), sums);
    all.step([&] { values.write(place.offset + at, elems, buffer.data()); });
    collective = collective && values.last_was_collective();
  }
  return collective;
}

struct Datasets {
  Hdf5Dataset values, checksums;
};

// If HDF5 cannot write the last few KiB of a file, it cannot release the file either: it tries
// again when the process ends, and crashes. Therefore some space is reserved before writing, and
// released before the file is closed.
constexpr std::size_t reserve_bytes = std::size_t{256} << 10;

}  // namespace

std::string checksum_dataset(State state) {
  return "checksums/" + std::string(to_string(state));
}

WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources) {
  const bool shared = place.access.comm != MPI_COMM_NULL;
  const Together all(place.access.comm, place.path);
  WrittenPart written;
  written.collective = shared;
  Hdf5File file;
  std::optional<TempFile>
      reserve;  // declared after `file`, so that it is removed first, after an error too
  all.step([&] {
    if (!all.first()) return;
    reserve.emplace(place.path + ".reserve", checkpoint_remedy);
    reserve->write(std::string(reserve_bytes, ' '));
  });
  std::vector<Datasets> sets(sources.size());
  std::int64_t end = 0;
  all.step([&] {
    file = Hdf5File::create(place.path, place.access);
    file.create_group("checksums");
    for (std::size_t i = 0; i < sources.size(); ++i) {
      const auto [state, dtype, slices] = sources[i];
      sets[i].values = file.create_dataset(std::string(to_string(state)), dtype, place.file_elems);
      sets[i].checksums =
          file.create_dataset(checksum_dataset(state), Dtype::int64, place.file_blocks);
      const std::int64_t first = sets[i].values.first_byte();
      written.first_byte[static_cast<std::size_t>(state)] = first;
      end = std::max(end, first + place.file_elems * dtype_bytes(dtype));
    }
  });
  all.step([&] {  // a collective write that fails on one rank would never return on the others
    if (all.first() && end > 0) reserve_space(place.path, end, checkpoint_remedy);
  });
  std::optional<DirectFile> direct;
  if (!shared) direct.emplace(place.path);
  for (std::size_t i = 0; i < sources.size(); ++i) {
    const auto s = static_cast<std::size_t>(sources[i].state);
    std::vector<std::uint64_t> sums;
    if (shared)
      written.collective =
          write_shared(sources[i], place, all, sets[i].values, sums) && written.collective;
    else
      write_alone(sources[i], place, written.first_byte[s], *direct, sums);
    written.digest[s] = xxh3(std::span<const std::uint64_t>(sums));
    all.step([&] {
      sets[i].checksums.write(place.first_block, static_cast<std::int64_t>(sums.size()),
                              sums.data());
    });
  }
  if (direct) direct->finish();
  reserve.reset();
  all.step([&] {
    for (Datasets& d : sets) {
      d.values.close();
      d.checksums.close();
    }
    file.close();
  });
  return written;
}

}  // namespace shardmark
