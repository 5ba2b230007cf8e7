// SPDX-License-Identifier: Apache-2.0
// States in memory that the host cannot access: they are written and read piece by piece through
// the two functions of FarMemory, and never accessed otherwise, because the pages here are
// protected.
#include <sys/mman.h>

#include <core/numeric/half.hpp>
#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::far_memory_test {
namespace {

constexpr std::int64_t elems = checksum_block_elems + 4321;

// Memory in protected pages: any access outside the two functions ends with a signal.
class ClosedPages {
 public:
  explicit ClosedPages(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    data_ = ::mmap(nullptr, bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data_ == MAP_FAILED) throw std::runtime_error("mmap failed");
    current() = this;
  }
  ~ClosedPages() {
    current() = nullptr;
    ::munmap(data_, bytes_);
  }
  ClosedPages(const ClosedPages&) = delete;
  ClosedPages& operator=(const ClosedPages&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(data_); }

  static void copy(void* to, const void* from, std::int64_t bytes) {
    ::mprotect(current()->data_, current()->bytes_, PROT_READ | PROT_WRITE);
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
    ::mprotect(current()->data_, current()->bytes_, PROT_NONE);
    largest = std::max(largest, bytes);
  }
  static inline std::int64_t largest = 0;  // the largest copy so far, in bytes

 private:
  static ClosedPages*& current() {
    static ClosedPages* pages = nullptr;
    return pages;
  }
  void* data_;
  std::size_t bytes_;
};

constexpr FarMemory far_memory = {&ClosedPages::copy, &ClosedPages::copy};

std::vector<float> values_of(State state) {
  std::vector<float> values(static_cast<std::size_t>(elems));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 10007) * 0.3f - 1000.0f * static_cast<float>(state);
  return values;
}

// All three states in one file, in memory that the host cannot access: two slices each, with an
// empty one between them.
class FarCheckpoint : public ::testing::Test {
 protected:
  FarCheckpoint() {
    const std::int64_t size = elems * 4;
    const ClosedPages pages(3 * size);
    std::vector<StateSource> sources;
    std::byte* at = pages.data();
    for (State s : {State::master, State::momentum, State::variance}) {
      ClosedPages::copy(at, values_of(s).data(), size);
      sources.push_back(
          {s,
           Dtype::fp32,
           {{at, 7, &far_memory}, {at, 0, &far_memory}, {at + 28, elems - 7, &far_memory}}});
      at += size;
    }
    ClosedPages::largest = 0;
    manifest.params = {{"all", elems, {elems}}};
    PartPlace place;
    place.path = folder.path("rank0.h5");
    place.elems = place.file_elems = elems;
    place.file_blocks = checksum_blocks(elems);
    const WrittenPart written = write_part(place, sources);
    CheckpointPart part;
    part.elems = elems;
    part.map = {{0, elems}};
    part.digest = written.digest;
    manifest.parts.push_back(part);
    manifest.files.resize(1);
    manifest.files[0].name = "rank0.h5";
    manifest.files[0].first_byte = written.first_byte;
    manifest.files[0].bytes = static_cast<std::int64_t>(std::filesystem::file_size(place.path));
  }

  template<class T>
  std::vector<T> read_far(State state, Dtype dtype, std::int64_t first, std::int64_t count) {
    const std::int64_t size = count * dtype_bytes(dtype);
    const ClosedPages pages(size);
    const WantedElements w{state, first, count, dtype, pages.data(), &far_memory};
    read_states(folder.path(), manifest, {&w, 1});
    std::vector<T> values(static_cast<std::size_t>(count));
    ClosedPages::copy(values.data(), pages.data(), size);
    return values;
  }

  const ScratchFolder folder;
  Manifest manifest;
};

TEST_F(FarCheckpoint, is_written_in_pieces_of_bounded_size_and_is_what_the_host_reads) {
  EXPECT_GT(ClosedPages::largest, 0);
  EXPECT_LE(ClosedPages::largest, checksum_piece_bytes);
  for (State s : {State::master, State::momentum, State::variance}) {
    std::vector<float> values(static_cast<std::size_t>(elems));
    const WantedElements w{s, 0, elems, Dtype::fp32, reinterpret_cast<std::byte*>(values.data())};
    read_states(folder.path(), manifest, {&w, 1});
    EXPECT_EQ(values, values_of(s));
  }
}

TEST_F(FarCheckpoint, any_range_is_read_into_far_memory) {
  for (State s : {State::master, State::variance})
    for (const auto& [first, count] : {std::pair<std::int64_t, std::int64_t>{0, elems},
                                       {5, 1},
                                       {checksum_block_elems - 100, 3000}}) {
      const auto all = values_of(s);
      EXPECT_EQ(read_far<float>(s, Dtype::fp32, first, count),
                std::vector<float>(all.begin() + first, all.begin() + first + count));
    }
}

TEST_F(FarCheckpoint, what_the_master_is_rounded_to_goes_there_too) {
  const auto master = values_of(State::master);
  const auto bf16 = read_far<Bf16>(State::param, Dtype::bf16, 100, elems - 100);
  const auto fp16 = read_far<Fp16>(State::param, Dtype::fp16, 100, elems - 100);
  for (std::size_t i = 0; i < bf16.size(); ++i) {
    ASSERT_EQ(bf16[i].bits, round_bf16(master[i + 100]).bits) << i;
    ASSERT_EQ(fp16[i].bits, round_fp16(master[i + 100]).bits) << i;
  }
}

}  // namespace
}  // namespace shardmark::test::far_memory_test
