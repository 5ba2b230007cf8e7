// SPDX-License-Identifier: Apache-2.0
// Rule: the collectives of a run, counted at the communicator, and its memory, counted by the
// ledger, equal those of recordings of DeepSpeed with the same number of ranks.
#include <gtest/gtest.h>

#include <core/plan/interpret/print.hpp>
#include <tests/support/recorded.hpp>
#include <tests/support/training.hpp>

namespace shardmark::test::recorded_run_test {
namespace {

// Logs each collective in the words of the recordings; the phase is not known here.
class LoggingLane : public ForwardingCommunicator {
 public:
  LoggingLane(std::unique_ptr<Communicator> lane, json& log, std::string group = "")
      : ForwardingCommunicator(std::move(lane)), log_(log), group_(std::move(group)) {}
  Ticket start(const Collective& c) override {
    const std::int64_t shard = c.elems / size();
    std::string extra;
    if (c.root >= 0) extra = (c.op == Op::broadcast ? "src=" : "dst=") + std::to_string(c.root);
    if (c.reduction == Reduction::max) extra = "max";
    log_.push_back({std::string(to_string(c.op)),
                    c.op == Op::barrier ? "-" : std::string(to_string(c.dtype)),
                    c.op == Op::all_gather ? shard : c.elems,
                    c.op == Op::reduce_scatter ? shard : c.elems, extra});
    if (!group_.empty()) log_.back().push_back(group_);
    return inner().start(c);
  }
  std::unique_ptr<Communicator> split(int color, int key) override {
    return std::make_unique<LoggingLane>(inner().split(color, key), log_, "hpz");
  }

 private:
  json& log_;
  std::string group_;
};

json without_phase(json rows) {
  for (json& row : rows) row.erase(row.begin());
  return rows;
}

TEST(RecordedRun, CollectivesAtTheCommunicator) {
  int cases = 0;
  std::vector<Recording> all = recordings("deepspeed_traces.json");
  for (const char* file : {"deepspeed_more_traces.json", "deepspeed_hpz.json",
                           "deepspeed_details.json", "deepspeed_autocast.json"})
    for (Recording& more : recordings(file)) all.push_back(std::move(more));
  for (const Recording& r : all) {
    if (r.world != world()) continue;
    ++cases;
    SCOPED_TRACE(r.name);
    json log = json::array();
    Training t(r.deck, MPI_COMM_WORLD, r.batch, [&](std::unique_ptr<Communicator> lane) {
      return std::make_unique<LoggingLane>(std::move(lane), log);
    });
    t.init();
    for (int s = 0; s < 4; ++s) {
      log.clear();
      EXPECT_EQ(t.bare_step(), !overflows(r)) << "step " << s;
      const char* key = s == 0 ? "first_step" : "steady_step";
      if (s > 0 && s < r.raw.value("steady_from_step", 3)) continue;
      const json want = without_phase(expected_rows(r.raw, key));
      EXPECT_EQ(log, want) << "step " << s << ": " << first_difference(log, want);
    }
    EXPECT_EQ(t.hashes().disagreement, "");
  }
  RecordProperty("cases", cases);
  printf("%d recordings of %d ranks\n", cases, world());
}

// The ledger distinguishes categories; the recordings also distinguish kinds within them.
const std::map<std::string, Category> category_of{{"params", Category::param},
                                                  {"param_partitions", Category::param},
                                                  {"secondary_partitions", Category::param},
                                                  {"grads", Category::grad},
                                                  {"partition_gradients", Category::grad},
                                                  {"full_fp32_gradients", Category::grad},
                                                  {"grad_partitions", Category::grad},
                                                  {"master", Category::master},
                                                  {"exp_avg", Category::momentum},
                                                  {"exp_avg_sq", Category::variance},
                                                  {"bucket_buffers", Category::bucket},
                                                  {"bucket", Category::bucket}};

CategoryBytes recorded_bytes(const Recording& r, int rank, const std::string& at) {
  CategoryBytes bytes{};
  for (const auto& [kind, value] : r.raw.at("bytes_by_rank")[rank].at(at).items()) {
    const bool gathered = kind == "params" && r.deck.zero.stage == 3;
    const Category c = gathered ? Category::gathered : category_of.at(kind);
    bytes[c] += value.get<std::int64_t>();
  }
  return bytes;
}

TEST(RecordedRun, MemoryInTheLedger) {
  int cases = 0;
  std::vector<Recording> all = recordings("deepspeed_memory.json");
  for (const char* file :
       {"deepspeed_hpz.json", "deepspeed_details.json", "deepspeed_autocast.json"})
    for (Recording& more : recordings(file)) all.push_back(std::move(more));
  for (const Recording& r : all) {
    if (r.world != world() || !r.raw.contains("bytes_by_rank")) continue;
    ++cases;
    Deck deck = r.deck;
    deck.run.memory_mode = MemoryMode::strict;
    Training t(deck, MPI_COMM_WORLD, r.batch);
    const int rank = t.program().rank;
    SCOPED_TRACE(r.name + ", rank " + std::to_string(rank));
    t.init();
    t.bare_step();
    t.bare_step();
    t.after_segment = [&](const Segment& segment, int micro_batch) {
      std::string at = "after_step";
      if (segment.kind == SegmentKind::micro) at = "after_bwd" + std::to_string(micro_batch);
      if (segment.kind == SegmentKind::boundary) return;
      EXPECT_EQ(t.memory()[Tier::device].live, recorded_bytes(r, rank, at)) << at;
    };
    t.step_by_segment();
  }
  printf("%d recordings of %d ranks\n", cases, world());
}

}  // namespace
}  // namespace shardmark::test::recorded_run_test
