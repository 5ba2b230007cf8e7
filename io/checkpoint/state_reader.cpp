// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/numeric/half.hpp>
#include <core/numeric/stream_store.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/hdf5.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/checkpoint/stored_layout.hpp>

namespace shardmark {
namespace {

// A run of elements as it is stored, within one block: in part `part` of `state`, beginning at
// element `at` of the part.
struct StoredRun {
  int part = 0;
  State state = State::master;
  std::int64_t at = 0, elems = 0;
  Dtype dtype = Dtype::fp32;  // the type in memory
  std::byte* into = nullptr;
  const FarMemory* far = nullptr;

  std::int64_t block() const { return at / checksum_block_elems; }
  // Returns the intersection with [from, end) of the part.
  StoredRun within(std::int64_t from, std::int64_t end) const {
    StoredRun run = *this;
    run.at = std::max(at, from);
    run.elems = std::min(at + elems, end) - run.at;
    run.into += (run.at - at) * dtype_bytes(dtype);
    return run;
  }
};

// Cuts a range at the ends of blocks.
void add_runs(const StoredRange& range, const WantedElements& w, State stored_as,
              std::vector<StoredRun>& runs) {
  std::byte* into = w.into + (range.first - w.first_elem) * dtype_bytes(w.dtype);
  for (std::int64_t done = 0, n = 0; done < range.elems; done += n) {
    const std::int64_t at = range.at + done;
    n = std::min(range.elems - done, checksum_block_elems - at % checksum_block_elems);
    runs.push_back(
        {range.part, stored_as, at, n, w.dtype, into + done * dtype_bytes(w.dtype), w.far});
  }
}

// Bypasses the caches if nothing is to be converted: the source is already in the caches, and the
// result does not have to be.
void convert(const std::byte* from, Dtype stored, const StoredRun& run) {
  if (stored == run.dtype)
    return kernel::stream_copy(run.into, from,
                               static_cast<std::size_t>(run.elems * dtype_bytes(stored)));
  // Only fp32 is converted.
  round_values(reinterpret_cast<const float*>(from), run.elems, run.dtype, run.into);
}

// Reads one state of one part block by block, and verifies each block.
class PartReader {
 public:
  PartReader(const Manifest& m, const Hdf5File& file, const std::string& path,
             const CheckpointPart& part, State s)
      : part_(part),
        dtype_(m.dtype_of(s)),
        place_(fmt::format("{}: dataset {}", path, to_string(s))),
        values_(file.open_dataset(std::string(to_string(s)), dtype_)),
        sums_(static_cast<std::size_t>(checksum_blocks(part_.elems))) {
    const Hdf5Dataset stored = file.open_dataset(checksum_dataset(s), Dtype::int64);
    if (values_.elems() < part_.offset + part_.elems ||
        stored.elems() < part_.first_block + checksum_blocks(part_.elems))
      wrong("is shorter than the manifest says");
    stored.read(part_.first_block, checksum_blocks(part_.elems), sums_.data());
    if (xxh3(std::span<const std::uint64_t>(sums_)) != part_.digest[s])
      wrong(
          "has checksums that differ from the manifest: it is damaged, or belongs to another "
          "checkpoint");
  }

  /// Reads one block, verifies it, and copies it to where the runs want it. All runs are within
  /// that block.
  void read(std::int64_t block, std::span<const StoredRun> runs) {
    const std::int64_t elem = dtype_bytes(dtype_), first = block * checksum_block_elems;
    const std::int64_t size = std::min(checksum_block_elems, part_.elems - first);
    const std::uint64_t sum =
        xxh3_while_fetched(size * elem, [&](std::int64_t at, std::int64_t bytes) {
          const std::int64_t from = first + at / elem, end = from + bytes / elem;
          values_.read(part_.offset + from, end - from, piece_.data());
          for (const StoredRun& r : runs)
            if (const auto run = r.within(from, end); run.elems > 0)
              deliver(piece_.data() + (run.at - from) * elem, run);
          return piece_.data();
        });
    bytes_ += size * elem;
    if (sum != sums_[static_cast<std::size_t>(block)])
      wrong(fmt::format("elements {} to {} do not have the checksum with which they were written",
                        part_.offset + first, part_.offset + first + size - 1));
  }

  void verify() {
    for (std::int64_t b = 0; b < checksum_blocks(part_.elems); ++b) read(b, {});
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  void deliver(const std::byte* from, const StoredRun& run) {
    if (run.far == nullptr) return convert(from, dtype_, run);
    const std::int64_t bytes = run.elems * dtype_bytes(run.dtype);
    if (run.dtype == dtype_) return run.far->put(run.into, from, bytes);
    StoredRun near = run;
    converted_.resize(static_cast<std::size_t>(bytes));
    near.into = converted_.data();
    convert(from, dtype_, near);
    run.far->put(run.into, converted_.data(), bytes);
  }
  [[noreturn]] void wrong(const std::string& what) const {
    throw IoError(
        fmt::format("{}: {}: give another checkpoint as checkpoint.resume", place_, what));
  }

  const CheckpointPart& part_;
  Dtype dtype_;
  std::string place_;
  Hdf5Dataset values_;
  std::vector<std::uint64_t> sums_;
  std::vector<std::byte> piece_ = std::vector<std::byte>(checksum_piece_bytes);
  std::vector<std::byte> converted_;  // on its way to memory that the host cannot access
  std::int64_t bytes_ = 0;
};

// HDF5 refuses a truncated file too, but its message does not say which data is lost.
Hdf5File open_whole(const Manifest& m, const CheckpointFile& file, const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const char* remedy = "give another checkpoint as checkpoint.resume";
  if (error) throw IoError(fmt::format("{}: {}: {}", path, error.message(), remedy));
  if (static_cast<std::int64_t>(bytes) >= file.bytes) return Hdf5File::open(path);
  // The state in which the file ends, or the first one beyond its end.
  State truncated_state = State::variance;
  std::int64_t before = -1;
  for (State s : m.stored()) {
    const std::int64_t at = file.first_byte[s];
    if (at > before && at <= static_cast<std::int64_t>(bytes)) truncated_state = s, before = at;
  }
  throw IoError(fmt::format("{}: dataset {}: the file is truncated: {} bytes of {}: {}", path,
                            to_string(truncated_state), bytes, file.bytes, remedy));
}

}  // namespace

void verify_part(const std::string& folder, const Manifest& manifest, const CheckpointPart& part,
                 State state) {
  const CheckpointFile& stored = manifest.files[static_cast<std::size_t>(part.file)];
  const std::string path = folder + "/" + stored.name;
  const Hdf5File file = open_whole(manifest, stored, path);
  PartReader(manifest, file, path, part, state).verify();
}

ReadTotals read_states(const std::string& folder, const Manifest& manifest,
                       std::span<const WantedElements> wanted, const ModelView& view) {
  const StoredLayout layout(manifest, view);
  std::vector<StoredRun> runs;
  for (const WantedElements& w : wanted) {
    const bool from_master = w.state == State::param && w.dtype != manifest.model_dtype;
    const bool same = manifest.stores(w.state) && !from_master;
    layout.find(w.first_elem, w.elems, [&](const StoredRange& range) {
      add_runs(range, w, same ? w.state : State::master, runs);
    });
  }
  const auto file_of = [&](const StoredRun& r) {
    return manifest.parts[static_cast<std::size_t>(r.part)].file;
  };
  std::ranges::sort(runs, {}, [&](const StoredRun& r) {
    return std::tuple(file_of(r), r.part, r.state, r.block());
  });
  ReadTotals totals;
  for (std::size_t i = 0; i < runs.size();) {
    const int f = file_of(runs[i]);
    const CheckpointFile& stored = manifest.files[static_cast<std::size_t>(f)];
    const std::string path = folder + "/" + stored.name;
    const Hdf5File file = open_whole(manifest, stored, path);
    ++totals.files;
    while (i < runs.size() && file_of(runs[i]) == f) {
      const int part = runs[i].part;
      const State state = runs[i].state;
      PartReader reader(manifest, file, path, manifest.parts[static_cast<std::size_t>(part)],
                        state);
      while (i < runs.size() && runs[i].part == part && runs[i].state == state) {
        const std::int64_t block = runs[i].block();
        std::size_t end = i;
        while (end < runs.size() && runs[end].part == part && runs[end].state == state &&
               runs[end].block() == block)
          ++end;
        reader.read(block, std::span(runs).subspan(i, end - i));
        i = end;
      }
      totals.bytes += reader.bytes();
    }
  }
  kernel::finish_streams();
  return totals;
}

}  // namespace shardmark
