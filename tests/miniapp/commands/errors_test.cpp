// SPDX-License-Identifier: Apache-2.0
// Rule: an error is printed once, in one line on standard error that names the place, the value and
// the remedy, with the exit status of docs/output.md, on any number of ranks, and nothing hangs.
#include <optional>

#include <gtest/gtest.h>

#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::errors_test {
namespace {

struct Wrong {
  std::string name;
  int status;
  std::vector<std::string> parts;  // must all be in the message
  std::string patch = "{}";        // of the tiny deck
  std::string text = {};           // instead of the tiny deck
  std::vector<std::string> args = {"run", "@deck.json", "--out", "@out"};  // "@": in the workplace
  std::map<std::string, std::string> environment = {};
  int min_ranks = 1;
};

void PrintTo(const Wrong& wrong, std::ostream* out) {
  *out << wrong.name;
}

std::vector<std::string> run_with(const std::string& set) {
  return {"run", "@deck.json", "--out", "@out", "--set", set};
}

std::vector<Wrong> wrongs() {
  std::vector<Wrong> all;
  const auto deck = [&](std::string name, std::string patch, std::vector<std::string> parts,
                        int status = 2) {
    parts.push_back("deck.json: ");
    all.push_back({std::move(name), status, std::move(parts), std::move(patch)});
  };
  const auto text = [&](std::string name, std::string content, std::vector<std::string> parts) {
    parts.push_back("deck.json: ");
    all.push_back({std::move(name), 2, std::move(parts), "{}", std::move(content)});
  };
  const auto args = [&](std::string name, std::vector<std::string> words,
                        std::vector<std::string> parts, int status = 2) {
    Wrong wrong{std::move(name), status, std::move(parts)};
    wrong.args = std::move(words);
    all.push_back(std::move(wrong));
  };

  deck("unknown_key", R"({"run": {"stepz": 3}})", {"run.stepz = 3", "did you mean \"steps\"?"});
  deck("unknown_section", R"({"modle": {}})", {"modle", "did you mean \"model\"?"});
  deck("ill_typed", R"({"run": {"steps": "three"}})", {"run.steps = \"three\"", "an integer"});
  deck("out_of_range", R"({"run": {"steps": 0}})", {"run.steps = 0", "from 1"});
  deck("stage_4", R"({"deepspeed": {"zero_optimization": {"stage": 4}}})",
       {"deepspeed.zero_optimization.stage = 4", "0, 1, 2 or 3"});
  deck("heads", R"({"model": {"heads": 5}})",
       {"model.heads = 5", "must divide model.hidden = 32", "change one of them"});
  deck("vocab_below_bytes", R"({"model": {"vocab": 255}})", {"model.vocab = 255", "at least 256"});
  deck("data_missing", R"({"data": {"path": "nosuch.txt"}})",
       {"data.path", "nosuch.txt", "No such file", "give a file"});
  deck("data_too_short", R"({"model": {"sequence": 100000}})",
       {"data.path", "100001", "shorter sequence"});
  deck("rank_count",
       R"({"deepspeed": {"train_batch_size": 5, "train_micro_batch_size_per_gpu": 2}})",
       {"deepspeed.train_batch_size = 5", "train_micro_batch_size_per_gpu", "number of ranks"});
  deck("overflow", R"({"model": {"hidden": 2000000000, "heads": 1, "layers": 1000}})",
       {"model.hidden", "63 bits", "smaller"});
  deck("llama_without_ffn", R"({"model": {"family": "llama"}})", {"model.ffn", "missing"});
  deck("nccl", R"({"comm": {"backend": "nccl"}})",
       {"comm.backend = \"nccl\"", "no NCCL", "\"auto\""});
  deck("does_not_fit", R"({"memory": {"device_gib": 0.001}})",
       {"device memory", "category ", "event ", "micro", " missing", "budget is 1.024 MiB",
        "would help"},
       3);

  text("not_json", "{ \"run\": ", {"not JSON", "line 1"});
  text("trailing_comma", "{ \"name\": \"a\", }", {"not JSON", "trailing commas"});
  text("duplicate_key", "{ \"name\": \"a\",\n  \"name\": \"b\" }",
       {"name", "twice", "line 2", "remove"});
  text("empty", "", {"is empty", "write a JSON object"});
  text("no_model", "{ \"run\": { \"steps\": 1 } }", {"model: missing", "give"});

  args("deck_missing", {"run", "@nosuch.json"}, {"nosuch.json", "no such file", "check the path"});
  args("deck_is_a_folder", {"run", "@"}, {"is a folder", "name the JSON file"});
  args("out_below_a_file", {"run", "@deck.json", "--out", "@text.bin/out"},
       {"text.bin/out", "--out"}, 4);
  args("out_is_a_file", {"run", "@deck.json", "--out", "@text.bin"}, {"text.bin", "--out"}, 4);
  args("out_in_proc", {"run", "@deck.json", "--out", "/proc/shardmark"},
       {"/proc/shardmark", "--out"}, 4);
  args("set_without_value", run_with("run.steps"), {"--set run.steps", "key.path=value"});
  args("set_below_a_number", run_with("run.steps.x=1"), {"--set", "run.steps.x", "not a section"});
  args("set_unknown_key", run_with("run.stepz=3"), {"--set", "run.stepz = 3", "did you mean"});
  args("set_ill_typed", run_with("run.steps=abc"), {"--set", "run.steps = \"abc\"", "an integer"});
  args("no_arguments", {}, {"subcommand", "--help"});
  args("unknown_subcommand", {"train", "@deck.json"}, {"train", "run, plan", "--help"});
  args("unknown_deck_subcommand", {"deck", "chek", "@deck.json"}, {"chek", "give one of check"});
  args("no_deck", {"run"}, {"DECK", "required"});
  args("unknown_option", {"run", "@deck.json", "--bogus"}, {"--bogus", "--help"});
  args("two_decks", {"run", "@deck.json", "@text.bin"}, {"text.bin", "--help"});
  args("plan_deck_missing", {"plan", "@nosuch.json", "--ranks", "2"},
       {"nosuch.json", "no such file"});
  args("plan_no_ranks", {"plan", "@deck.json"}, {"--ranks", "required"});
  args("plan_rank_beyond", {"plan", "@deck.json", "--ranks", "2", "--rank", "2"},
       {"rank = 2", "0 to 1"});
  args("plan_zero_ranks", {"plan", "@deck.json", "--ranks", "0"}, {"--ranks: 0", "at least 1"});
  args("plan_format", {"plan", "@deck.json", "--ranks", "2", "--format", "xml"}, {"xml", "dot"});
  args("check_deck_missing", {"deck", "check", "@nosuch.json"}, {"nosuch.json", "no such file"});

  Wrong fault{"unknown_fault", 2, {"SHARDMARK_FAULT", "boo", "flip_bit"}};
  fault.environment = {{"SHARDMARK_FAULT", "boo"}};
  all.push_back(std::move(fault));
  Wrong self{"self_on_many", 2, {"comm.backend", "self", "3 ranks", "mpi"}};
  self.patch = R"({"comm": {"backend": "self"}})";
  self.min_ranks = 3;
  all.push_back(std::move(self));
  return all;
}

class Errors : public ::testing::TestWithParam<std::tuple<Wrong, int>> {};

TEST_P(Errors, ArePrintedOnceWithTheirStatus) {
  const auto& [wrong, ranks] = GetParam();
  if (ranks < wrong.min_ranks) GTEST_SKIP() << "is not wrong on " << ranks << " rank";
  const Workplace place;
  place.deck(3, Json::parse(wrong.patch));
  if (!wrong.text.empty() || wrong.name == "empty") place.write("deck.json", wrong.text);
  Launch launch;
  for (const std::string& word : wrong.args)
    launch.args.push_back(word.starts_with('@') ? place.path(word.substr(1)) : word);
  launch.environment = wrong.environment;
  launch.ranks = ranks;
  std::optional<Program> program(std::in_place, launch);
  Outcome outcome = program->wait();
  if (launcher_was_lost(launch, outcome)) outcome = program.emplace(launch).wait();

  EXPECT_FALSE(outcome.timed_out);
  EXPECT_EQ(outcome.status, wrong.status);
  EXPECT_EQ(outcome.out, "");
  const auto lines = lines_of(outcome.err);
  ASSERT_EQ(lines.size(), 1U) << outcome.err;
  EXPECT_TRUE(lines[0].starts_with("shardmark: ")) << outcome.err;
  for (const std::string& part : wrong.parts)
    EXPECT_NE(lines[0].find(part), std::string::npos) << "no \"" << part << "\" in: " << lines[0];
  EXPECT_TRUE(program->wait_until_gone(gone_limit_s)) << "processes are left";
}

INSTANTIATE_TEST_SUITE_P(Program, Errors,
                         ::testing::Combine(::testing::ValuesIn(wrongs()), ::testing::Values(1, 3)),
                         [](const auto& test) {
                           return std::get<0>(test.param).name + "_np" +
                                  std::to_string(std::get<1>(test.param));
                         });

// Two ranks of one launch with different decks, as from a stale copy on a node.
TEST(RanksThatDisagree, AreNamed) {
  const Workplace place;
  const std::string stale = place.write("stale.json", read_text(place.deck(2)));
  place.deck(3);
  Launch launch{.args = place.run_args(), .ranks = 1};
  for (const char* word : {":", SHARDMARK_TEST_NUMPROC_FLAG, "1", SHARDMARK_TEST_PROGRAM, "run",
                           stale.c_str(), "--out", "unused"})
    launch.args.emplace_back(word);
  const Outcome outcome = run(launch);
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.out, "");
  EXPECT_EQ(lines_of(outcome.err).size(), 1U) << outcome.err;
  EXPECT_NE(outcome.err.find("rank 1 (host "), std::string::npos) << outcome.err;
  EXPECT_NE(outcome.err.find(") has another deck"), std::string::npos) << outcome.err;
}

}  // namespace
}  // namespace shardmark::test::errors_test
