// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cstring>

#include <core/numeric/half.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/direct_file.hpp>
#include <io/checkpoint/hdf5.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/together.hpp>
#include <io/files/durable_file.hpp>

namespace shardmark {
namespace {

static_assert(std::endian::native == std::endian::little, "elements are stored low byte first");

std::string dataset_place(std::string_view name) {
  return "dataset " + std::string(name);
}

// Elements of a source one run after another, whatever slices they lie in.
class SliceReader {
 public:
  explicit SliceReader(const StateSource& source) : slices_(source.slices), dtype_(source.dtype) {}

  void copy(std::int64_t elems, std::byte* into) {
    for (std::int64_t done = 0; done < elems;) {
      const StateSlice& s = slices_[slice_];
      const std::int64_t n = std::min(elems - done, s.elems - at_);
      fetch_elements(s, at_, n, dtype_, into + done * dtype_bytes(dtype_));
      done += n, at_ += n;
      if (at_ == s.elems) ++slice_, at_ = 0;
    }
  }

 private:
  std::span<const StateSlice> slices_;
  Dtype dtype_;
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

// Values go straight to where HDF5 has made room for them. Returns the checksums of the blocks.
std::vector<std::uint64_t> write_values(const StateSource& source, const PartPlace& place,
                                        std::int64_t first_byte, DirectFile& file) {
  const std::int64_t size = dtype_bytes(source.dtype), piece = DirectFile::piece_bytes / size;
  const std::int64_t begin = first_byte + place.offset * size;
  std::vector<std::uint64_t> sums;
  SliceReader reader(source);
  for (std::int64_t at = 0; at < place.elems; at += piece) {
    const std::int64_t elems = std::min(piece, place.elems - at);
    take(reader, elems, size, file.room(), sums);
    file.write(begin + at * size, elems * size, dataset_place(to_string(source.state)));
  }
  return sums;
}

// Where a file has its datasets: what its ranks must know to write them.
struct FilePlan {
  std::int64_t bytes = 0;
  EnumArray<State, std::int64_t> values{}, checksums{};  // first byte of each
};

Hdf5Image lay_out(const PartPlace& place, std::span<const StateSource> sources, FilePlan& plan) {
  Hdf5File file = Hdf5File::create(place.path, place.alignment_bytes);
  file.create_group("checksums");
  for (const StateSource& source : sources) {
    const auto s = static_cast<std::size_t>(source.state);
    plan.values[s] =
        file.create_dataset(std::string(to_string(source.state)), source.dtype, {place.file_elems});
    plan.checksums[s] =
        file.create_dataset(checksum_dataset(source.state), Dtype::int64, {place.file_blocks});
  }
  Hdf5Image image = file.finish();
  plan.bytes = image.bytes;
  return image;
}

// Striping and the like are chosen when a file is made. MPI knows how each file system takes them.
void create_with_hints(const PartPlace& place) {
  MPI_Info info = MPI_INFO_NULL;
  bool good = MPI_Info_create(&info) == MPI_SUCCESS;
  for (const auto& [key, value] : place.hints)
    good = good && MPI_Info_set(info, key.c_str(), value.c_str()) == MPI_SUCCESS;
  if (good) {
    MPI_File file = MPI_FILE_NULL;
    good = MPI_File_open(MPI_COMM_SELF, place.path.c_str(),
                         MPI_MODE_CREATE | MPI_MODE_EXCL | MPI_MODE_WRONLY, info,
                         &file) == MPI_SUCCESS &&
           MPI_File_close(&file) == MPI_SUCCESS;
  }
  if (info != MPI_INFO_NULL) (void)MPI_Info_free(&info);  // an error is reported below
  if (!good)
    throw IoError(place.path +
                  ": cannot be created with checkpoint.hints: shorten or remove them, " +
                  "or give another checkpoint.dir");
}

FilePlan make_file(const PartPlace& place, std::span<const StateSource> sources) {
  FilePlan plan;
  const Hdf5Image image = lay_out(place, sources, plan);
  if (!place.hints.empty()) create_with_hints(place);
  create_file(place.path, image.bytes, image.pieces, checkpoint_remedy, !place.hints.empty());
  return plan;
}

void write_states(const PartPlace& place, std::span<const StateSource> sources,
                  const FilePlan& plan, WrittenPart& written) {
  DirectFile file(place.path, checkpoint_remedy);
  for (const StateSource& source : sources) {
    const auto s = static_cast<std::size_t>(source.state);
    const std::vector<std::uint64_t> sums = write_values(source, place, plan.values[s], file);
    const auto bytes =
        std::as_bytes(std::span(sums));  // int64, low byte first, as on any host here
    file.copy({plan.checksums[s] + place.first_block * dtype_bytes(Dtype::int64), bytes},
              dataset_place(checksum_dataset(source.state)));
    written.digest[s] = xxh3(std::span<const std::uint64_t>(sums));
  }
  file.flush_and_close();
}

}  // namespace

void fetch_elements(const StateSlice& slice, std::int64_t at, std::int64_t elems, Dtype dtype,
                    std::byte* into) {
  const std::int64_t size = dtype_bytes(slice.narrow.value_or(dtype));
  if (!slice.narrow) return fetch(slice.far, into, slice.data + at * size, elems * size);
  // The 16-bit values go to the second half of their place, and are widened from its beginning on.
  std::byte* const narrow = into + elems * (dtype_bytes(dtype) - size);
  fetch(slice.far, narrow, slice.data + at * size, elems * size);
  for (std::int64_t i = 0; i < elems; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, narrow + i * size, sizeof bits);
    const float value = *slice.narrow == Dtype::bf16 ? widen(Bf16{bits}) : widen(Fp16{bits});
    std::memcpy(into + i * dtype_bytes(dtype), &value, sizeof value);
  }
}

std::string checksum_dataset(State state) {
  return "checksums/" + std::string(to_string(state));
}

WrittenPart write_part(const PartPlace& place, std::span<const StateSource> sources) {
  const Together all(place.comm, place.path);
  FilePlan plan;
  all.step([&] {
    if (all.first()) plan = make_file(place, sources);
  });
  plan = all.of_first(plan);
  WrittenPart written;
  written.first_byte = plan.values;
  written.file_bytes = plan.bytes;
  all.step([&] { write_states(place, sources, plan, written); });
  return written;
}

}  // namespace shardmark
