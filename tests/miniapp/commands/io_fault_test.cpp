// SPDX-License-Identifier: Apache-2.0
// Rules: when a call on one of its files fails, the program ends with one message and status 4 on
// every rank. No signal ends it, it does not hang, and what was published stays whole. Files are
// written, flushed and renamed in the order that durability needs. A library that is loaded before
// the program makes the calls fail and keeps a log of them.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <gtest/gtest.h>

#include <tests/support/io_faults.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::io_fault_test {
namespace {

struct Layout {
  std::string name;
  Json section;
};
const std::vector<Layout> layouts = {{"alone", Json::object()},
                                     {"shared", {{"layout", "shared"}}},
                                     {"pairs", {{"ranks_per_file", 2}}},
                                     {"beside", {{"async", true}}}};

class IoPlace {
 public:
  explicit IoPlace(const Layout& layout) {
    Json section = {{"dir", "ckpt"}, {"every", 1}, {"keep", 1}, {"resume", "latest"}};
    section.update(layout.section);
    place_.deck(2, {{"checkpoint", section}, {"comm", {{"timeout_s", 20}}}});
  }
  std::string dir() const { return place_.path("ckpt"); }
  const Workplace& place() const { return place_; }
  std::string log() const { return place_.path("log"); }

  // Goes on until so many steps are done.
  Outcome train(int steps, int ranks, const std::string& order = "") const {
    Launch launch{.args = place_.run_args({"--set", "run.steps=" + std::to_string(steps)}),
                  .ranks = ranks};
    if (!order.empty())
      launch.environment = {{"LD_PRELOAD", SHARDMARK_TEST_IO_LIBRARY}, {io_fault_variable, order}};
    return run(launch);
  }
  int steps_done() const {
    const std::string name = read_text(dir() + "/latest");
    return std::stoi(name.substr(std::string("step-").size()));
  }
  void expect_whole() const {
    const Outcome o = run({.args = {"ckpt", "verify", dir()}});
    EXPECT_EQ(o.status, 0) << o.out << o.err;
  }

 private:
  const Workplace place_;
};

// One run in which a call fails. False: there was none to fail.
bool fails(const IoPlace& place, const IoFault& fault, int ranks, int victim) {
  const int done = place.steps_done();
  std::filesystem::remove(place.log());
  const Outcome o = place.train(done + 1, ranks, io_fault_order(fault, victim, place.log()));
  const auto calls = read_io_log(place.log());
  const auto made = std::count_if(calls.begin(), calls.end(), [&](const IoCall& c) {
    return c.rank == victim && c.call == fault.call;
  });
  const bool reached = made >= fault.nth;
  SCOPED_TRACE(o.out + o.err);
  EXPECT_FALSE(o.timed_out);
  EXPECT_TRUE(o.status == 0 || o.status == 4) << o.status;
  if (!reached) {
    EXPECT_EQ(o.status, 0);
  }
  if (o.status == 4) {
    const auto lines = lines_of(o.err);
    EXPECT_EQ(lines.size(), 1U);
    if (!lines.empty()) {
      EXPECT_NE(lines[0].find(fault.under), std::string::npos);
      EXPECT_NE(lines[0].find(std::strerror(fault.error)), std::string::npos);
      EXPECT_FALSE(names_hdf5(lines[0]));
    }
    EXPECT_EQ(o.out.find("RESULT="), std::string::npos);
  }
  place.expect_whole();
  return reached;
}

std::string said(const IoFault& f, const Layout& layout, int ranks, int victim) {
  return layout.name + ", " + std::to_string(ranks) + " ranks: " + f.call + " " +
         std::to_string(f.nth) + " of rank " + std::to_string(victim) + ": " +
         std::strerror(f.error) + (f.lasting ? ", from then on" : "");
}

TEST(IoFaults, OneMessageAndStatus4WhateverCallFailsOnWhateverRank) {
  int turn = 0;
  for (const Layout& layout : layouts) {
    const IoPlace place(layout);
    ASSERT_EQ(place.train(1, 2).status, 0);
    for (const char* call : {"pwrite", "fsync", "ftruncate", "close"}) {
      const IoFault fault{place.dir(), call, 1 + turn % 3, turn % 2 == 0 ? EIO : EDQUOT,
                          turn % 2 == 0};
      SCOPED_TRACE(said(fault, layout, 2, turn % 2));
      fails(place, fault, 2, turn % 2);
      ++turn;
    }
  }
}

// Each call of each kind until a run has none left to fail.
TEST(IoFaultsFull, EveryCallOfEveryRank) {
  int cases = 0;
  for (const Layout& layout : layouts)
    for (const int ranks : {1, 2, 3, 4}) {
      const IoPlace place(layout);
      ASSERT_EQ(place.train(1, ranks).status, 0);
      for (const char* call : {"open", "write", "pwrite", "pread", "ftruncate", "fallocate",
                               "fsync", "close", "rename"})
        for (const auto& [error, lasting] : {std::pair(EIO, true), {ENOSPC, false}, {EDQUOT, true}})
          for (int victim = 0; victim < ranks; ++victim)
            for (IoFault fault{place.dir(), call, 1, error, lasting};; ++fault.nth, ++cases) {
              SCOPED_TRACE(said(fault, layout, ranks, victim));
              ASSERT_LT(fault.nth, 500);
              if (!fails(place, fault, ranks, victim)) break;
              if (::testing::Test::HasFatalFailure()) return;
            }
    }
  std::printf("%d calls failed\n", cases);
}

// ---- durability -------------------------------------------------------------------------------

bool is_state_file(const std::string& path) {
  return path.ends_with(".h5");
}
std::string folder_of(const std::string& path) {
  return std::filesystem::path(path).parent_path().string();
}

// Whether file or folder `path` was flushed between two calls of the log, both excluded.
bool flushed(const std::vector<IoCall>& calls, const std::string& path, std::size_t from,
             std::size_t to) {
  for (std::size_t i = from + 1; i < to; ++i)
    if (calls[i].call == "fsync" && calls[i].path == path) return true;
  return false;
}

// What is renamed is on the disk before, and the rename itself before anything depends on it.
void expect_durable(const std::vector<IoCall>& calls, const std::string& dir, int ranks) {
  int states = 0, published = 0, pointers = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const IoCall& c = calls[i];
    if (c.call != "rename" || c.path.find("/.removing.") != std::string::npos) continue;
    SCOPED_TRACE("rename " + c.path + " to " + c.to);
    const bool publishes = c.path.find("/.writing.") != std::string::npos && folder_of(c.to) == dir;
    for (std::size_t w = 0; w < i; ++w) {
      const IoCall& written = calls[w];
      const bool writes = written.call == "write" || written.call == "pwrite" ||
                          written.call == "ftruncate" || written.call == "fallocate";
      const bool inside =
          written.path == c.path || (publishes && folder_of(written.path) == c.path);
      if (!writes || !inside) continue;
      // A note between ranks and the manifest get their own names, which this log shows as renames.
      EXPECT_TRUE(flushed(calls, written.path, w, i)) << written.call << " " << written.path;
      states += publishes && is_state_file(written.path) && written.rank == ranks - 1;
    }
    if (publishes) {  // the names of the files in it
      ++published;
      std::size_t last_name = 0;
      for (std::size_t w = 0; w < i; ++w)
        if ((calls[w].call == "open" && is_state_file(calls[w].path)) ||
            (calls[w].call == "rename" && folder_of(calls[w].to) == c.path))
          last_name = w;
      EXPECT_TRUE(flushed(calls, c.path, last_name, i)) << "the folder " << c.path;
    }
    // Its own name, before the next rename of this rank and before the end.
    std::size_t next = i + 1;
    while (next < calls.size() && !(calls[next].call == "rename" && calls[next].rank == c.rank))
      ++next;
    EXPECT_TRUE(flushed(calls, folder_of(c.to), i, next)) << "the folder of " << c.to;
    if (c.to == dir + "/latest") {
      ++pointers;
      EXPECT_EQ(pointers, published) << "it points to what is not published";
    }
  }
  EXPECT_GT(states, 0) << "the last rank writes nothing?";
  EXPECT_EQ(published, 2);
  EXPECT_EQ(pointers, 2);
}

TEST(Durability, WhatIsRenamedIsOnTheDiskAndSoIsTheRename) {
  for (const Layout& layout : layouts)
    for (const int ranks : {1, 3}) {
      SCOPED_TRACE(layout.name + ", " + std::to_string(ranks) + " ranks");
      const IoPlace place(layout);
      const Outcome o =
          place.train(2, ranks, io_fault_order({place.dir(), "none"}, 0, place.log()));
      ASSERT_EQ(o.status, 0) << o.err;
      expect_durable(read_io_log(place.log()), place.dir(), ranks);
    }
}

TEST(Durability, TheFilesOfAReportToo) {
  const Workplace place;
  place.deck(1);
  const std::string log = place.path("log");
  const Outcome o =
      run({.args = place.run_args(),
           .ranks = 2,
           .environment = {{"LD_PRELOAD", SHARDMARK_TEST_IO_LIBRARY},
                           {io_fault_variable, io_fault_order({place.out(), "none"}, 0, log)}}});
  ASSERT_EQ(o.status, 0) << o.err;
  const auto calls = read_io_log(log);
  int files = 0;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    if (calls[i].call != "rename") continue;
    ++files;
    std::size_t last_write = 0;
    for (std::size_t w = 0; w < i; ++w)
      if (calls[w].call == "write" && calls[w].path == calls[i].path) last_write = w;
    EXPECT_TRUE(flushed(calls, calls[i].path, last_write, i)) << calls[i].to;
    EXPECT_TRUE(flushed(calls, place.out(), i, calls.size())) << calls[i].to;
  }
  EXPECT_EQ(files, 3);
}

}  // namespace
}  // namespace shardmark::test::io_fault_test
