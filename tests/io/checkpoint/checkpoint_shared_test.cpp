// SPDX-License-Identifier: Apache-2.0
// One file of all ranks: each rank writes its part and reads the parts of all. One rank has nothing
// to write.
#include <cstdio>
#include <cstring>

#include <mpi.h>

#include <io/checkpoint/checksum.hpp>
#include <io/checkpoint/part_writer.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <tests/support/io_scratch.hpp>
#include <tests/support/world_rank.hpp>

namespace shardmark::test::checkpoint_shared_test {
namespace {

// The second rank has nothing; the first has more than one transfer can hold.
std::int64_t elems_of(int rank) {
  return rank == 0 ? 33 * checksum_block_elems + 5 : rank == 1 ? 0 : 1000 + rank;
}
float value_of(State s, std::int64_t elem) {
  return static_cast<float>(elem % 99991) + 0.25f * static_cast<float>(s);
}

struct SharedFile {
  SharedFile() {
    char name[64] = "/tmp/shardmark-shared-XXXXXX";
    if (world_rank() == 0 && ::mkdtemp(name) == nullptr) name[0] = '\0';
    MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
    folder = name;
  }
  ~SharedFile() {
    MPI_Barrier(MPI_COMM_WORLD);
    std::error_code ignored;
    if (world_rank() == 0) std::filesystem::remove_all(folder, ignored);
  }
  std::string folder;
};

TEST(SharedFile, is_written_by_all_and_read_by_anyone) {
  const SharedFile shared;
  const int rank = world_rank(), size = world_size();
  PartPlace place;
  place.path = shared.folder + "/all.h5";
  place.comm = MPI_COMM_WORLD;
  place.alignment_bytes = 4096;
  Manifest m;
  std::int64_t first = 0;
  for (int r = 0; r < size; ++r) {
    CheckpointPart part;
    part.rank = r;
    part.offset = part.elems = 0;
    part.offset = first, part.elems = elems_of(r), part.first_block = place.file_blocks;
    if (part.elems > 0) part.map = {{first, part.elems}};
    if (r == rank) {
      place.offset = first, place.elems = part.elems, place.first_block = part.first_block;
    }
    first += part.elems;
    place.file_blocks += checksum_blocks(part.elems);
    m.parts.push_back(std::move(part));
  }
  place.file_elems = first;
  m.params = {{"all", first, {first}}};

  std::vector<std::vector<float>> values(3);
  std::vector<StateSource> sources;
  for (State s : {State::master, State::momentum, State::variance}) {
    auto& v = values[static_cast<std::size_t>(s) - 1];
    for (std::int64_t e = 0; e < place.elems; ++e) v.push_back(value_of(s, place.offset + e));
    sources.push_back(
        {s, Dtype::fp32, {{reinterpret_cast<const std::byte*>(v.data()), place.elems}}});
  }
  const WrittenPart written = write_part(place, sources);

  std::vector<WrittenPart> all(static_cast<std::size_t>(size));
  MPI_Allgather(&written, sizeof written, MPI_BYTE, all.data(), sizeof written, MPI_BYTE,
                MPI_COMM_WORLD);
  for (int r = 0; r < size; ++r)
    m.parts[static_cast<std::size_t>(r)].digest = all[static_cast<std::size_t>(r)].digest;
  m.files = {{"all.h5", static_cast<std::int64_t>(std::filesystem::file_size(place.path)),
              written.first_byte}};
  for (State s : {State::master, State::variance}) {
    const std::int64_t from = 100 + rank, count = first - from;
    std::vector<float> back(static_cast<std::size_t>(count));
    const WantedElements w{s, from, count, Dtype::fp32, reinterpret_cast<std::byte*>(back.data())};
    read_states(shared.folder, m, {&w, 1});
    for (std::int64_t e = 0; e < count; ++e)
      ASSERT_EQ(back[static_cast<std::size_t>(e)], value_of(s, from + e));
  }
}

TEST(SharedFile, what_fails_on_one_rank_fails_on_all) {
  const SharedFile shared;
  PartPlace place;
  place.path = shared.folder + "/missing/all.h5";
  place.comm = MPI_COMM_WORLD;
  const std::string what = message_of<IoError>([&] { write_part(place, {}); });
  EXPECT_NE(what.find(place.path), std::string::npos) << what;
}

}  // namespace
}  // namespace shardmark::test::checkpoint_shared_test
