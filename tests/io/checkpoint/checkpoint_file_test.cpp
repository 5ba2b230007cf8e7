// SPDX-License-Identifier: Apache-2.0
// Parts in files: any range is read back as it was written, and no damage stays unnoticed.
#include <numeric>
#include <random>

#include <core/numeric/half.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::checkpoint_file_test {
namespace {

constexpr std::int64_t elems = 3 * checksum_block_elems + 1234;  // of both ranks together
constexpr State fp32_states[] = {State::master, State::momentum, State::variance};

float value_of(State state, std::int64_t elem) {
  return static_cast<float>(elem % 100003) * 0.37f - 1000.0f * static_cast<float>(state);
}

// Two ranks: the first has both ends in three slices, the second has what is between them.
class Checkpoint {
 public:
  explicit Checkpoint(Dtype dtype = Dtype::fp32, float shift = 0) {
    const std::int64_t cut = checksum_block_elems + 77, end = elems - 1000;
    manifest.model_dtype = dtype;
    manifest.params = {{"all", elems, {elems}}};
    manifest.files.resize(2);
    write(0, {{0, cut}, {end, elems - end}}, shift);
    write(1, {{cut, end - cut}}, shift);
  }

  std::string file(int rank) const { return folder.path(manifest.files[rank].name); }
  std::vector<float> read(State state, std::int64_t first, std::int64_t count) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    const WantedElements w{state, first, count, Dtype::fp32,
                           reinterpret_cast<std::byte*>(values.data())};
    totals = read_states(folder.path(), manifest, {&w, 1});
    return values;
  }

  const ScratchFolder folder;
  Manifest manifest;
  mutable ReadTotals totals;

 private:
  void write(int rank, std::vector<ElementRange> map, float shift) {
    CheckpointPart part;
    part.rank = part.file = rank;
    std::vector<std::int64_t> all;
    for (const ElementRange& r : map) {
      part.elems += r.elems;
      for (std::int64_t e = r.first; e < r.first + r.elems; ++e) all.push_back(e);
    }
    part.map = std::move(map);
    std::vector<StateSource> sources;
    std::vector<Bf16> half;
    std::vector<std::vector<float>> values(3);
    for (State s : fp32_states) {
      auto& v = values[static_cast<std::size_t>(s) - 1];
      for (std::int64_t e : all) v.push_back(value_of(s, e) + shift);
      const auto* data = reinterpret_cast<const std::byte*>(v.data());
      sources.push_back({s, Dtype::fp32, {{data, 5}, {data + 20, 0}, {data + 20, part.elems - 5}}});
    }
    if (manifest.model_dtype == Dtype::bf16) {
      for (float f : values[0]) half.push_back(round_bf16(f));
      const auto* data = reinterpret_cast<const std::byte*>(half.data());
      sources.insert(sources.begin(), {State::param, Dtype::bf16, {{data, part.elems}}});
    }
    CheckpointFile& f = manifest.files[static_cast<std::size_t>(rank)];
    f.name = "rank" + std::to_string(rank) + ".h5";
    PartPlace place;
    place.path = folder.path(f.name);
    place.alignment_bytes = 4096;
    place.elems = place.file_elems = part.elems;
    place.file_blocks = checksum_blocks(part.elems);
    const WrittenPart written = write_part(place, sources);
    part.digest = written.digest;
    f.first_byte = written.first_byte;
    f.bytes = static_cast<std::int64_t>(std::filesystem::file_size(place.path));
    manifest.parts.push_back(std::move(part));
  }
};

TEST(CheckpointFile, any_range_is_read_back_whoever_wrote_it) {
  const Checkpoint c;
  std::mt19937 random(7);
  for (int i = 0; i < 40; ++i) {
    const auto first = static_cast<std::int64_t>(random() % elems);
    const auto count = 1 + static_cast<std::int64_t>(random()) % (elems - first);
    const State state = fp32_states[i % 3];
    const auto values = c.read(state, first, count);
    for (std::int64_t e = 0; e < count; ++e)
      ASSERT_EQ(values[static_cast<std::size_t>(e)], value_of(state, first + e));
  }
}

TEST(CheckpointFile, only_files_and_blocks_that_matter_are_read) {
  const Checkpoint c;
  std::filesystem::remove(c.file(1));
  c.read(State::momentum, 10, 3);
  EXPECT_EQ(c.totals.files, 1);
  EXPECT_EQ(c.totals.bytes, checksum_block_elems * 4);
  expect_says(message_of<IoError>([&] { c.read(State::momentum, 0, elems); }),
              {c.file(1), "No such file", "checkpoint.resume"});
}

TEST(CheckpointFile, what_is_wanted_twice_is_read_once) {
  const Checkpoint c;
  std::vector<float> whole(static_cast<std::size_t>(elems)), again = whole, some(1000);
  std::vector<Bf16> rounded(static_cast<std::size_t>(elems));
  const auto into = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  const WantedElements wanted[] = {{State::param, 500, 1000, Dtype::fp32, into(some)},
                                   {State::master, 0, elems, Dtype::fp32, into(whole)},
                                   {State::param, 0, elems, Dtype::bf16, into(rounded)},
                                   {State::param, 0, elems, Dtype::fp32, into(again)}};
  const ReadTotals totals = read_states(c.folder.path(), c.manifest, wanted);
  EXPECT_EQ(totals.bytes, elems * 4);
  for (std::int64_t e = 0; e < elems; ++e) {
    const auto i = static_cast<std::size_t>(e);
    const float value = value_of(State::master, e);
    ASSERT_EQ(whole[i], value);
    ASSERT_EQ(again[i], value);
    ASSERT_EQ(rounded[i].bits, round_bf16(value).bits);
  }
  for (std::int64_t e = 0; e < 1000; ++e)
    ASSERT_EQ(some[static_cast<std::size_t>(e)], value_of(State::master, 500 + e));
}

TEST(CheckpointFile, datasets_are_aligned_and_readable_as_plain_bytes) {
  const Checkpoint c;
  for (State s : fp32_states) {
    const auto at = c.manifest.files[0].first_byte[s];
    EXPECT_EQ(at % 4096, 0);
    std::ifstream file(c.file(0), std::ios::binary);
    file.seekg(at + 40);
    float value = 0;
    file.read(reinterpret_cast<char*>(&value), 4);
    EXPECT_EQ(value, value_of(s, 10));
  }
}

TEST(CheckpointFile, sixteen_bit_parameters_are_stored_and_else_made_from_the_master) {
  const Checkpoint c(Dtype::bf16);
  for (Dtype dtype : {Dtype::bf16, Dtype::fp16, Dtype::fp32}) {
    std::vector<std::byte> bytes(400000);
    const std::int64_t first = 1000, count = 100000;
    const WantedElements w{State::param, first, count, dtype, bytes.data()};
    read_states(c.folder.path(), c.manifest, {&w, 1});
    for (std::int64_t e = 0; e < count; ++e) {
      const float master = value_of(State::master, first + e);
      if (dtype == Dtype::fp32)
        ASSERT_EQ(reinterpret_cast<const float*>(bytes.data())[e], master);
      else if (dtype == Dtype::bf16)
        ASSERT_EQ(reinterpret_cast<const Bf16*>(bytes.data())[e].bits, round_bf16(master).bits);
      else
        ASSERT_EQ(reinterpret_cast<const Fp16*>(bytes.data())[e].bits, round_fp16(master).bits);
    }
  }
}

void flip(const std::string& path, std::int64_t at) {
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  file.seekg(at);
  const int byte = file.get();
  file.seekp(at);
  file.put(static_cast<char>(byte ^ 16));
}

TEST(CheckpointFile, a_flipped_bit_of_any_dataset_is_noticed_by_name) {
  for (int rank : {0, 1})
    for (State s : fp32_states) {
      const Checkpoint c;
      const auto bytes = c.manifest.parts[static_cast<std::size_t>(rank)].elems * 4;
      flip(c.file(rank),
           c.manifest.files[static_cast<std::size_t>(rank)].first_byte[s] + bytes - 1);
      expect_says(message_of<IoError>([&] { c.read(s, 0, elems); }),
                  {c.file(rank), "dataset " + std::string(to_string(s)), "checksum"});
      for (State other : fp32_states)
        if (other != s) c.read(other, 0, elems);
    }
}

TEST(CheckpointFile, wherever_it_is_cut_file_and_dataset_are_named) {
  const Checkpoint c;
  const auto whole = c.manifest.files[1].bytes;
  for (std::int64_t left : {std::int64_t{0}, std::int64_t{100}, whole / 2, whole - 1}) {
    std::filesystem::resize_file(c.file(1), static_cast<std::uintmax_t>(left));
    expect_says(message_of<IoError>([&] { c.read(State::master, 0, elems); }),
                {c.file(1), "dataset ", "is truncated", std::to_string(whole)});
  }
}

TEST(CheckpointFile, a_file_of_another_checkpoint_is_noticed) {
  const Checkpoint c, other(Dtype::fp32, 1.0f);
  std::filesystem::copy_file(other.file(1), c.file(1),
                             std::filesystem::copy_options::overwrite_existing);
  expect_says(message_of<IoError>([&] { c.read(State::variance, 0, elems); }),
              {c.file(1), "dataset variance", "another checkpoint"});
  std::filesystem::copy_file(c.file(0), c.file(1),
                             std::filesystem::copy_options::overwrite_existing);
  EXPECT_THROW(c.read(State::variance, 0, elems), IoError);
}

// HDF5's own structures have no checksums that ShardMark knows of. Whichever bit is wrong there,
// either the error is noticed or the values are right.
TEST(CheckpointFile, no_flipped_bit_of_the_header_gives_wrong_values) {
  const Checkpoint c;
  const std::string good = slurp(c.file(0));
  for (std::int64_t at = 0; at < 4096; at += 7) {
    flip(c.file(0), at);
    try {
      const auto values = c.read(State::master, 0, 100);
      for (std::int64_t e = 0; e < 100; ++e)
        ASSERT_EQ(values[static_cast<std::size_t>(e)], value_of(State::master, e)) << at;
    } catch (const IoError&) {
    }
    flip(c.file(0), at);
  }
  EXPECT_EQ(slurp(c.file(0)), good);
}

TEST(CheckpointFile, one_that_is_there_already_is_not_overwritten) {
  const Checkpoint c;
  PartPlace place;
  place.path = c.file(0);
  expect_says(message_of<IoError>([&] { write_part(place, {}); }), {c.file(0), "exist"});
}

}  // namespace
}  // namespace shardmark::test::checkpoint_file_test
