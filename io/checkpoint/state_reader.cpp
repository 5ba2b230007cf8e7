// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <filesystem>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include <core/error.hpp>
#include <core/half.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/hdf5.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>

namespace shardmark {
namespace {

// A run of elements as it is stored, within one block: in part `part` of `state`, from its element
// `at` on.
struct StoredRun {
  int part = 0;
  State state = State::master;
  std::int64_t at = 0, elems = 0;
  Dtype dtype = Dtype::fp32;  // in memory
  std::byte* into = nullptr;

  std::int64_t block() const { return at / checksum_block_elems; }
};

// Where each range of the model is stored, by first element.
class PartitionMap {
 public:
  explicit PartitionMap(const Manifest& manifest) {
    for (std::size_t p = 0; p < manifest.parts.size(); ++p) {
      std::int64_t at = 0;
      for (const ElementRange& r : manifest.parts[p].map) {
        entries_.push_back({r.first, r.elems, static_cast<int>(p), at});
        at += r.elems;
      }
    }
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.first < b.first; });
  }

  void find(const WantedElements& w, State stored_as, std::vector<StoredRun>& runs) const {
    auto it = std::upper_bound(entries_.begin(), entries_.end(), w.first_elem,
                               [](std::int64_t e, const Entry& entry) { return e < entry.first; });
    --it;
    for (std::int64_t done = 0; done < w.elems;) {
      const std::int64_t skip = w.first_elem + done - it->first, at = it->at + skip;
      const std::int64_t in_block = checksum_block_elems - at % checksum_block_elems;
      const std::int64_t n = std::min({w.elems - done, it->elems - skip, in_block});
      runs.push_back({it->part, stored_as, at, n, w.dtype, w.into + done * dtype_bytes(w.dtype)});
      done += n;
      if (skip + n == it->elems) ++it;
    }
  }

 private:
  struct Entry {
    std::int64_t first, elems;
    int part;
    std::int64_t at;  // in the part
  };
  std::vector<Entry> entries_;
};

void convert(const std::byte* from, Dtype stored, const StoredRun& run) {
  const auto count = static_cast<std::size_t>(run.elems);
  if (stored == run.dtype) {
    std::memcpy(run.into, from, count * static_cast<std::size_t>(dtype_bytes(stored)));
    return;
  }
  const auto* values = reinterpret_cast<const float*>(from);  // what is converted is the master
  if (run.dtype == Dtype::bf16)
    std::transform(values, values + count, reinterpret_cast<Bf16*>(run.into), round_bf16);
  else
    std::transform(values, values + count, reinterpret_cast<Fp16*>(run.into), round_fp16);
}

// One state of one part: block by block, each verified.
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
    if (xxh3(std::span<const std::uint64_t>(sums_)) != part_.digest[static_cast<std::size_t>(s)])
      wrong("has other checksums than the manifest: it is damaged, or of another checkpoint");
  }

  // Runs come block by block, in each the longest first: what a rank holds twice is read once.
  void read(const StoredRun& run) {
    const std::int64_t first = run.block() * checksum_block_elems;
    const std::int64_t size = size_of(run.block());
    if (held_ != run.block() && run.elems == size && run.dtype == dtype_)
      hold(run.block(), run.into);
    else
      convert(held(run.block()) + (run.at - first) * dtype_bytes(dtype_), dtype_, run);
  }

  void verify() {
    for (std::int64_t b = 0; b < checksum_blocks(part_.elems); ++b) (void)held(b);
  }

  std::int64_t bytes() const { return bytes_; }

 private:
  std::int64_t size_of(std::int64_t block) const {
    return std::min(checksum_block_elems, part_.elems - block * checksum_block_elems);
  }
  const std::byte* held(std::int64_t block) {
    if (held_ != block) {
      copy_.resize(static_cast<std::size_t>(checksum_block_elems * dtype_bytes(dtype_)));
      hold(block, copy_.data());
    }
    return held_at_;
  }
  void hold(std::int64_t block, std::byte* into) {
    held_.reset();
    const std::int64_t first = part_.offset + block * checksum_block_elems, size = size_of(block);
    const std::int64_t elem = dtype_bytes(dtype_);
    const std::uint64_t sum =
        xxh3_while_filled({into, static_cast<std::size_t>(size * elem)},
                          [&](std::int64_t at, std::span<std::byte> piece) {
                            values_.read(first + at / elem, std::ssize(piece) / elem, piece.data());
                          });
    bytes_ += size * elem;
    if (sum != sums_[static_cast<std::size_t>(block)])
      wrong(fmt::format("elements {} to {} have another checksum than when they were written",
                        first, first + size - 1));
    held_ = block, held_at_ = into;
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
  std::optional<std::int64_t> held_;  // the block at `held_at_`: in `copy_`, or where it was wanted
  const std::byte* held_at_ = nullptr;
  std::vector<std::byte> copy_;
  std::int64_t bytes_ = 0;
};

// HDF5 refuses a file that was cut, but not in words that name what is lost.
void require_whole(const Manifest& m, const CheckpointFile& file, const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  const char* remedy = "give another checkpoint as checkpoint.resume";
  if (error) throw IoError(fmt::format("{}: {}: {}", path, error.message(), remedy));
  if (static_cast<std::int64_t>(bytes) >= file.bytes) return;
  State cut = State::variance;  // the one in which it ends, or the first behind
  std::int64_t before = -1;
  for (State s : {State::param, State::master, State::momentum, State::variance}) {
    const std::int64_t at = file.first_byte[static_cast<std::size_t>(s)];
    if (m.stores(s) && at > before && at <= static_cast<std::int64_t>(bytes)) cut = s, before = at;
  }
  throw IoError(fmt::format("{}: dataset {}: the file is cut: {} bytes of {}: {}", path,
                            to_string(cut), bytes, file.bytes, remedy));
}

Hdf5File open_whole(const Manifest& manifest, const CheckpointFile& file, const std::string& path) {
  require_whole(manifest, file, path);
  return Hdf5File::open(path);
}

}  // namespace

void verify_part(const std::string& folder, const Manifest& manifest, const CheckpointPart& part,
                 State state) {
  const CheckpointFile& stored = manifest.files[static_cast<std::size_t>(part.file)];
  const std::string path = folder + "/" + stored.name;
  Hdf5File file = open_whole(manifest, stored, path);
  PartReader(manifest, file, path, part, state).verify();
  file.close();
}

ReadTotals read_states(const std::string& folder, const Manifest& manifest,
                       std::span<const WantedElements> wanted) {
  const PartitionMap map(manifest);
  std::vector<StoredRun> runs;
  for (const WantedElements& w : wanted) {
    const bool from_master = w.state == State::param && w.dtype != manifest.model_dtype;
    const bool same = manifest.stores(w.state) && !from_master;
    map.find(w, same ? w.state : State::master, runs);
  }
  const auto file_of = [&](const StoredRun& r) {
    return manifest.parts[static_cast<std::size_t>(r.part)].file;
  };
  std::sort(runs.begin(), runs.end(), [&](const StoredRun& a, const StoredRun& b) {
    const auto order = [&](const StoredRun& r) {
      const bool converted = r.dtype != manifest.dtype_of(r.state);
      return std::tuple(file_of(r), r.part, r.state, r.block(), -r.elems, converted);
    };
    return order(a) < order(b);
  });
  ReadTotals totals;
  for (std::size_t i = 0; i < runs.size();) {
    const int f = file_of(runs[i]);
    const CheckpointFile& stored = manifest.files[static_cast<std::size_t>(f)];
    const std::string path = folder + "/" + stored.name;
    Hdf5File file = open_whole(manifest, stored, path);
    ++totals.files;
    while (i < runs.size() && file_of(runs[i]) == f) {
      const int part = runs[i].part;
      const State state = runs[i].state;
      PartReader reader(manifest, file, path, manifest.parts[static_cast<std::size_t>(part)],
                        state);
      for (; i < runs.size() && runs[i].part == part && runs[i].state == state; ++i)
        reader.read(runs[i]);
      totals.bytes += reader.bytes();
    }
    file.close();
  }
  return totals;
}

}  // namespace shardmark
