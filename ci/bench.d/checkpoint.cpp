// SPDX-License-Identifier: Apache-2.0
// Compares checkpoints of the deck's states with plain files, in turns on the same disk: durable
// writes with write and fdatasync of as many bytes; reads from the page cache with read; the time
// for which an asynchronous checkpoint blocks training with one memcpy of the states. Also measures
// the share of checksums in a write. Every state has random bits, since a disk may store zeros
// without writing.
//
//     mpiexec -n RANKS bench_checkpoint TURNS DECK DIR [SET ...]
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <random>

#include <ci/bench.d/session.hpp>
#include <ci/bench.d/turns.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <core/error.hpp>
#include <io/checkpoint/checksum.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>

namespace shardmark::bench {
namespace {

constexpr std::size_t piece_bytes = std::size_t{8} << 20;

void require(bool good, const std::string& what) {
  if (!good) throw IoError(what + ": " + std::strerror(errno));
}

void fill_at_random(const std::vector<StateSource>& states, int rank) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank) + 1);
  for (const StateSource& s : states)
    for (const StateSlice& slice : s.slices)
      for (std::int64_t i = 0; i + 8 <= slice.elems * dtype_bytes(s.dtype); i += 8) {
        const std::uint64_t bits = random() & 0x3fffffff3fffffff;  // finite
        std::memcpy(const_cast<std::byte*>(slice.data) + i, &bits, 8);
      }
}

std::vector<StateSlice> bytes_of(const std::vector<StateSource>& states) {
  std::vector<StateSlice> all;
  for (const StateSource& s : states)
    for (StateSlice slice : s.slices) {
      slice.elems *= dtype_bytes(s.dtype);
      all.push_back(slice);
    }
  return all;
}

void write_plain(const std::string& path, const std::vector<StateSlice>& bytes) {
  const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  require(fd >= 0, path);
  for (const StateSlice& s : bytes)
    for (std::size_t at = 0, all = static_cast<std::size_t>(s.elems); at < all;) {
      const ssize_t n = ::write(fd, s.data + at, std::min(piece_bytes, all - at));
      require(n > 0, path);
      at += static_cast<std::size_t>(n);
    }
  require(::fdatasync(fd) == 0, path);
  require(::close(fd) == 0, path);
}

void read_plain(const std::string& path, const std::vector<StateSlice>& bytes) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  require(fd >= 0, path);
  for (const StateSlice& s : bytes)
    for (std::size_t at = 0, all = static_cast<std::size_t>(s.elems); at < all;) {
      auto* into = const_cast<std::byte*>(s.data) + at;
      const ssize_t n = ::read(fd, into, std::min(piece_bytes, all - at));
      require(n > 0, path);
      at += static_cast<std::size_t>(n);
    }
  require(::close(fd) == 0, path);
}

void copy(const std::vector<StateSlice>& from, std::byte* into) {
  for (const StateSlice& s : from) {
    std::memcpy(into, s.data, static_cast<std::size_t>(s.elems));
    into += s.elems;
  }
}

struct Times {
  std::vector<double> write, plain_write, read, plain_read, blocked, memcpy, checksums;
};

class Bench {
 public:
  Bench(const Machine& machine, const std::string& path, std::string dir,
        const std::vector<std::string>& sets)
      : machine_(machine),
        dir_(std::move(dir)),
        session_(machine, path, with(sets, true)),
        lane_(machine.make_lane()),
        peers_(*lane_) {
    beside_.deck = session_.deck;
    beside_.deck.checkpoint.dir = dir_ + "/beside";
    beside_.used_json = "{}";
    now_ = beside_;
    now_.deck.checkpoint.async = false;
    now_.deck.checkpoint.dir = dir_ + "/now";
    again_ = now_;
    again_.deck.checkpoint.resume = "latest";
    again_.deck.checkpoint.every = 0;
    states_ =
        state_sources(session_.program, session_.executor(), owned_elements(session_.program));
    bytes_ = bytes_of(states_);
    for (const StateSlice& s : bytes_) all_bytes_ += s.elems;
    whole_.resize(static_cast<std::size_t>(all_bytes_));
    fill_at_random(states_, peers_.rank());
  }

  void run(int turns) {
    const Program& program = session_.program;
    const Executor& executor = session_.executor();
    Checkpoints now(now_, program, machine_.world.comm(), peers_);
    Checkpoints beside(beside_, program, machine_.world.comm(), peers_);
    beside.restore(executor, session_.runner());  // touches the memory into which states are copied
    std::vector<StateSource> staging = staging_slots(program, executor);
    const std::string plain = dir_ + "/plain-" + std::to_string(peers_.rank());
    std::uint64_t sum = 0;
    Times t;
    for (int turn = -1; turn < turns; ++turn) {
      if (turn == 0) t = {};
      // Each goes first in every other turn, since the disk's cache helps the one that comes after
      // a pause.
      for (const bool ours : {turn % 2 == 0, turn % 2 != 0}) {
        if (ours)
          t.write.push_back(together([&] { now.write(executor, session_.runner()); }));
        else
          t.plain_write.push_back(together([&] { write_plain(plain, bytes_); }));
      }
      read_plain(plain, bytes_);  // both are in the page cache then
      (void)read_again();
      t.plain_read.push_back(together([&] { read_plain(plain, bytes_); }));
      t.read.push_back(read_again());
      t.memcpy.push_back(together([&] { copy(bytes_, whole_.data()); }));
      t.blocked.push_back(together([&] { beside.write(executor, session_.runner()); }));
      beside.finish();
      const double copied = together([&] { copy(bytes_, whole_.data()); });
      t.checksums.push_back(together([&] { sum += hash_while_copied(); }) - copied);
    }
    if (sum == 0) fmt::print("\n");  // so that the compiler does not remove it
    ::unlink(plain.c_str());
    if (peers_.rank() == 0) report(t);
  }

 private:
  // Hashes and copies block by block in the cache, as a write does.
  std::uint64_t hash_while_copied() {
    constexpr std::int64_t block = 4 * checksum_block_elems;
    std::byte* into = whole_.data();
    std::uint64_t sum = 0;
    for (const StateSlice& s : bytes_)
      for (std::int64_t at = 0; at < s.elems; at += block) {
        const std::int64_t n = std::min(block, s.elems - at);
        sum += xxh3_while_fetched(n, [&](std::int64_t in_block, std::int64_t bytes) {
          std::memcpy(into + in_block, s.data + at + in_block, static_cast<std::size_t>(bytes));
          return into + in_block;
        });
        into += n;
      }
    return sum;
  }

  static std::vector<std::string> with(std::vector<std::string> sets, bool async) {
    sets.insert(sets.end(), {"checkpoint.dir=unused", "checkpoint.every=1", "checkpoint.keep=1",
                             std::string("checkpoint.async=") + (async ? "true" : "false")});
    return sets;
  }

  template<class Work>
  double together(Work&& work) {
    peers_.barrier();
    return peers_.max(seconds_of([&] {
      work();
      peers_.barrier();
    }));
  }

  double read_again() {
    Checkpoints c(again_, session_.program, machine_.world.comm(), peers_);
    return together([&] { c.restore(session_.executor(), session_.runner()); });
  }

  void report(const Times& t) {
    const double gb = static_cast<double>(all_bytes_) * peers_.size() / 1e9;
    const auto seconds = [&](const std::vector<double>& own, const std::vector<double>& other) {
      return fmt::format("{:.3f} s, {:.3f} s; {:.2f} GB", spread(own).median, spread(other).median,
                         gb);
    };
    print_figure("checkpoint/plain files, durable", ratio(t.write, t.plain_write), "x", "<= 1.1",
                 seconds(t.write, t.plain_write));
    print_figure("checkpoint/plain files, read from the page cache", ratio(t.read, t.plain_read),
                 "x", "<= 1.5", seconds(t.read, t.plain_read));
    print_figure("asynchronous checkpoint/memcpy, training blocked", ratio(t.blocked, t.memcpy),
                 "x", "<= 1.3", seconds(t.blocked, t.memcpy));
    print_figure("checksums/checkpoint, durable", ratio(t.checksums, t.write), "x", "< 0.05",
                 seconds(t.checksums, t.write));
    print_figure("checkpoint, durable", spread(t.write), "s", "", fmt::format("{:.2f} GB", gb));
    print_figure("checkpoint, training blocked", spread(t.blocked), "s", "",
                 fmt::format("{:.2f} GB", gb));
    print_figure("checkpoint, read warm", spread(t.read), "s", "", fmt::format("{:.2f} GB", gb));
  }

  const Machine& machine_;
  std::string dir_;
  DeckSession session_;
  std::unique_ptr<Communicator> lane_;
  Peers peers_;
  LoadedDeck beside_, now_, again_;
  std::vector<StateSource> states_;
  std::vector<StateSlice> bytes_;
  std::int64_t all_bytes_ = 0;     // of bytes_
  std::vector<std::byte> whole_;  // as many
};

}  // namespace
}  // namespace shardmark::bench

int main(int argc, char** argv) {
  using namespace shardmark::bench;
  return run_bench(argc, argv, 3, "bench_checkpoint TURNS DECK DIR [SET ...]",
                   [&](const Machine& m) {
                     std::filesystem::create_directories(argv[3]);
                     Bench(m, argv[2], argv[3], {argv + 4, argv + argc}).run(std::atoi(argv[1]));
                   });
}
