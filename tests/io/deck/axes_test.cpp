// SPDX-License-Identifier: Apache-2.0
// Rules: a deck whose layers are divided over ranks is read with its degree, and ranks that divide
// layers share a batch; what cannot be divided, and what is not modelled beside it, is refused by
// the key and says what it is.
#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::axes_test {
namespace {

const char* const divided_deck = R"({
    "model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 4, "kv_heads": 2, "ffn": 48,
              "sequence": 8, "vocab": 64},
    "data": {"source": "uniform"},
    "deepspeed": {"train_micro_batch_size_per_gpu": 3, "zero_optimization": {"stage": 1},
                  "tensor_parallel": {"autotp_size": 2}},
    "run": {"steps": 1}})";

class Axes : public ::testing::Test {
 protected:
  const ScratchFolder folder_;
  const std::string path_ = folder_.write("d.json", divided_deck);
};

TEST_F(Axes, GiveRanksThatDivideLayersOneBatch) {
  const Deck deck = load_deck(path_, {});
  EXPECT_EQ(deck.zero.parallel.tensor, 2);
  const Batch batch = infer_batch(deck.zero, 8, path_);
  EXPECT_EQ(batch.micro, 3);
  EXPECT_EQ(batch.global, 12) << "4 groups with data of their own";
  const Deck whole = load_deck(path_, {"deepspeed.train_batch_size=24"});
  EXPECT_EQ(infer_batch(whole.zero, 8, path_).accumulation, 1) << "DeepSpeed counts all ranks";
}

TEST_F(Axes, DivideNothingByOne) {
  for (const char* size : {"0", "1"}) {
    const Deck deck =
        load_deck(path_, {std::string("deepspeed.tensor_parallel.autotp_size=") + size});
    EXPECT_FALSE(deck.zero.parallel.divides());
  }
}

TEST_F(Axes, RefuseWhatIsNotModelledByName) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.kv_heads=1", "1 heads of keys and values"},
      {"model.ffn=47", "a feed-forward width of 47"},
      {"model.vocab=63", "a vocabulary of 63"},
      {"model.tied_head=true", "a head tied to the embedding"},
      {"run.schedule=paper", "run.schedule \"deepspeed\""},
      {"run.compute=none", "run.compute"},
      {"checkpoint={\"dir\": \"c\", \"every\": 1}", "checkpoints"},
      {"deepspeed.zero_optimization={\"stage\": 3, \"zero_hpz_partition_size\": 2}",
       "zero_hpz_partition_size"},
  };
  for (const auto& [set, says] : cases) {
    SCOPED_TRACE(set);
    expect_says(
        message_of<DeckError>([&, s = std::string(set)] { load_deck(path_, {s}); }),
        {"deepspeed.tensor_parallel.autotp_size = 2", "not modelled yet", says, "set it to 1"});
  }
}

}  // namespace
}  // namespace shardmark::test::axes_test
