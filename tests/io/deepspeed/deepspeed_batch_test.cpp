// SPDX-License-Identifier: Apache-2.0
// The batch triple: what DeepSpeed infers from each combination of keys, and what it refuses.
#include <io/deepspeed/config.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::deepspeed_batch_test {
namespace {

using Given = std::optional<std::int64_t>;

ZeroSpec spec(Given train, Given micro, Given steps) {
  ZeroSpec z;
  z.train_batch_size = train;
  z.micro_batch_size = micro;
  z.accumulation_steps = steps;
  return z;
}

TEST(Batch, every_sound_combination_is_completed) {
  const Given no;
  const struct {
    Given train, micro, steps;
    int world;
    Batch batch;
  } cases[] = {
      {24, 2, 3, 4, {24, 2, 3}},         {24, 2, no, 4, {24, 2, 3}},  {24, no, 3, 4, {24, 2, 3}},
      {no, 2, 3, 4, {24, 2, 3}},         {24, no, no, 4, {24, 6, 1}}, {no, 2, no, 4, {8, 2, 1}},
      {4, no, no, 1, {4, 4, 1}},         {6, 2, no, 1, {6, 2, 3}},    {7, 7, 1, 1, {7, 7, 1}},
      {no, 1, no, 16384, {16384, 1, 1}},
  };
  for (const auto& c : cases) {
    const Batch b = infer_batch(spec(c.train, c.micro, c.steps), c.world, "d.json");
    EXPECT_EQ(b.global, c.batch.global);
    EXPECT_EQ(b.micro, c.batch.micro);
    EXPECT_EQ(b.accumulation, c.batch.accumulation);
    EXPECT_EQ(b.global, b.micro * b.accumulation * c.world);
  }
}

TEST(Batch, every_unsound_combination_is_refused_with_values_and_remedy) {
  const Given no;
  const struct {
    Given train, micro, steps;
    int world;
    std::vector<std::string> says;
  } cases[] = {
      {no, no, no, 1, {"missing", "train_batch_size", "train_micro_batch_size_per_gpu"}},
      {no, no, 2, 1, {"missing", "train_batch_size", "train_micro_batch_size_per_gpu"}},
      {7, 2, 2, 1, {"train_batch_size = 7", "2 x 2 x 1 = 4", "change one"}},
      {5, 2, no, 1, {"train_batch_size = 5", "multiple of", "2 x 1"}},
      {5, no, 2, 1, {"train_batch_size = 5", "multiple of", "2 x 1"}},
      {5, no, no, 2, {"train_batch_size = 5", "ranks = 2", "number of ranks"}},
      {3, no, no, 4, {"train_batch_size = 3", "ranks = 4"}},
      {4, 2, no, 4, {"train_batch_size = 4", "2 x 4"}},
      {0, no, no, 1, {"train_batch_size = 0", "greater than 0"}},
      {no, 0, no, 1, {"train_micro_batch_size_per_gpu = 0", "greater than 0"}},
      {4, 0, no, 1, {"train_micro_batch_size_per_gpu = 0"}},
      {4, no, 0, 1, {"gradient_accumulation_steps = 0"}},
      {no, 2, -1, 1, {"gradient_accumulation_steps = -1"}},
      {no, std::int64_t{1} << 62, no, 2, {"63 bits"}},
      {no, 2, no, 0, {"ranks = 0"}},
  };
  for (const auto& c : cases)
    expect_says(message_of<DeckError>(
                    [&] { infer_batch(spec(c.train, c.micro, c.steps), c.world, "d.json"); }),
                [&] {
                  auto parts = c.says;
                  parts.push_back("d.json");
                  return parts;
                }());
}

TEST(Batch, inference_agrees_with_the_rule_for_all_small_numbers) {
  const auto options = {Given(), Given(1), Given(2), Given(3), Given(4), Given(6), Given(12)};
  for (const Given train : options)
    for (const Given micro : options)
      for (const Given steps : options)
        for (const int world : {1, 2, 3}) {
          std::optional<Batch> batch;
          try {
            batch = infer_batch(spec(train, micro, steps), world, "d.json");
          } catch (const DeckError&) {
            continue;
          }
          EXPECT_EQ(batch->global, batch->micro * batch->accumulation * world);
          EXPECT_EQ(batch->global, train.value_or(batch->global));
          EXPECT_EQ(batch->micro, micro.value_or(batch->micro));
          EXPECT_EQ(batch->accumulation, steps.value_or(batch->accumulation));
          if (!steps && !(train && micro)) {
            EXPECT_EQ(batch->accumulation, 1);
          }
        }
}

}  // namespace
}  // namespace shardmark::test::deepspeed_batch_test
