// SPDX-License-Identifier: Apache-2.0
// Rules of losses.csv as `verify` reads it: what was written is read back bit by bit, and a line
// that is not whole is named.
#include <miniapp/tools/submission/read/report_reader.hpp>
#include <tests/support/io_scratch.hpp>

namespace shardmark::test::losses_reader_test {
namespace {

const std::vector<LossRow> rows{{1, 4.75, 1.0 / 3, 1e-3, 65536, false, 0.1},
                                {2, 1e-300, 0, 5e-324, 1, true, 123456789.125}};

TEST(LossesReader, ReadsWhatWasWritten) {
  const std::vector<LossRow> read = read_losses(losses_csv(rows));
  EXPECT_EQ(losses_csv(read), losses_csv(rows));
  ASSERT_EQ(read.size(), rows.size());
  EXPECT_EQ(read[0].grad_norm, rows[0].grad_norm);
  EXPECT_EQ(read[1].lr, rows[1].lr);
  EXPECT_TRUE(read[1].skipped && !read[0].skipped);
  EXPECT_TRUE(read_losses(losses_csv({})).empty());
}

TEST(LossesReader, NamesTheLineThatIsWrong) {
  const std::string head = losses_csv({});
  const struct {
    std::string text;
    const char* says;
  } cases[] = {
      {"", "the first line"},
      {"step,loss\n1,2\n", "the first line"},
      {head + "1,2,3,4,5,0\n", "line 2 has not 7 cells"},
      {head + "1,2,3,4,5,0,7,8\n", "line 2 has not 7 cells"},
      {head + "1,2,3,4,5,0,7\n1,2,x,4,5,0,7\n", "line 3: \"x\" is not a number"},
      {head + "1,,3,4,5,0,7\n", "line 2: \"\" is not a number"},
  };
  for (const auto& c : cases)
    expect_says(message_of<ReportError>([&] { read_losses(c.text); }), {"losses.csv", c.says});
}

}  // namespace
}  // namespace shardmark::test::losses_reader_test
