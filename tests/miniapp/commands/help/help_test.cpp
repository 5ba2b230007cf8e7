// SPDX-License-Identifier: Apache-2.0
// What `--help` prints is enough to use the program, and the man page and the completion scripts
// know the same commands and options.
#include <algorithm>
#include <cstdlib>
#include <set>

#include <gtest/gtest.h>

#include <tests/support/pattern.hpp>
#include <tests/support/program.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test::help_test {
namespace {

std::string output_of(std::vector<std::string> args) {
  const Outcome outcome = run({.args = std::move(args)});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream in(text);
  return {std::istream_iterator<std::string>(in), {}};
}

std::string help_of(const std::string& command) {
  auto args = words_of(command);
  args.push_back("--help");
  return output_of(args);
}

// The lines below "<title>:", up to the next empty line.
std::vector<std::string> section(const std::string& help, const std::string& title) {
  std::vector<std::string> found;
  bool inside = false;
  for (const std::string& line : lines_of(help)) {
    if (inside && line.empty()) break;
    if (inside) found.push_back(line);
    if (line == title + ":") inside = true;
  }
  return found;
}

// The first column of a section: names begin in column 2, with two blanks behind them.
std::vector<std::string> names(const std::string& help, const std::string& title) {
  std::vector<std::string> found;
  for (const std::string& line : section(help, title))
    if (const Match match = match_whole(line, "^  ([^ ].*?)(?:  .*)?$"); !match.empty())
      found.push_back(match[1]);
  return found;
}

// All commands ("ckpt info", …) as the program's help lists them; first the program itself.
std::vector<std::string> commands() {
  std::vector<std::string> all = names(help_of(""), "Commands");
  all.insert(all.begin(), "");
  return all;
}

// All options ("--set", …), without placeholders.
std::vector<std::string> options(const std::string& help) {
  std::vector<std::string> all;
  for (const std::string& entry : names(help, "Options"))
    for (const std::string& word : words_of(entry))
      if (word.starts_with("--")) all.push_back(word);
  return all;
}

// Lines of examples; continued lines are joined.
std::vector<std::string> examples(const std::string& help) {
  std::vector<std::string> all;
  bool continued = false;
  for (std::string line : section(help, "Examples")) {
    const bool ends = !line.ends_with('\\');
    if (!ends) line.pop_back();
    if (continued)
      all.back() += line;
    else if (line.starts_with("  ") && line[2] != ' ')
      all.push_back(line.substr(2));
    continued = !ends;
  }
  return all;
}

bool installed(const std::string& tool) {
  return std::system(("command -v " + tool + " >/dev/null 2>&1").c_str()) == 0;
}

// The output of a shell command on both streams.
std::string shell(const Workplace& at, const std::string& command) {
  const std::string all = "cd '" + at.path("") + "' && { " + command + "; } >shell.out 2>&1";
  EXPECT_EQ(std::system(all.c_str()), 0) << read_text(at.path("shell.out"));
  return read_text(at.path("shell.out"));
}

TEST(Help, ListsAllCommands) {
  EXPECT_EQ(commands(), (std::vector<std::string>{"",
                                                  "run",
                                                  "plan",
                                                  "calibrate",
                                                  "noise",
                                                  "predict",
                                                  "advise",
                                                  "sweep",
                                                  "compare",
                                                  "trace",
                                                  "ckpt info",
                                                  "ckpt verify",
                                                  "ckpt consolidate",
                                                  "deck check",
                                                  "machine check",
                                                  "decks",
                                                  "machines",
                                                  "submit",
                                                  "verify",
                                                  "table"}));
}

TEST(Help, SaysWhatIsNeededToUseACommand) {
  for (const std::string& command : commands()) {
    SCOPED_TRACE(command);
    const std::string help = help_of(command);
    EXPECT_TRUE(help.starts_with("Usage: shardmark")) << help;
    for (const char* title : {"Options", "Exit status", "Examples"})
      EXPECT_FALSE(section(help, title).empty()) << title;
    for (const std::string& line : lines_of(help)) EXPECT_LE(line.size(), 80U) << line;
    ASSERT_FALSE(examples(help).empty());
    EXPECT_NE(examples(help)[0].find("shardmark " + command), std::string::npos);
  }
}

TEST(Help, GroupsListTheirCommands) {
  EXPECT_EQ(names(help_of("ckpt"), "Commands"),
            (std::vector<std::string>{"ckpt info", "ckpt verify", "ckpt consolidate"}));
  EXPECT_EQ(names(help_of("deck"), "Commands"), (std::vector<std::string>{"deck check"}));
}

TEST(Help, NamesTheVariablesThatARunLooksAt) {
  const std::string help = help_of("run");
  for (const char* name : {"OMP_NUM_THREADS", "SHARDMARK_BF16_PRODUCTS", "SHARDMARK_FAULT"})
    EXPECT_NE(help.find(name), std::string::npos) << name;
}

// Examples that only plan are fast, and every deck that they name exists.
TEST(Help, ExamplesThatPlanSucceed) {
  const Workplace at;
  int tried = 0;
  for (const std::string command : {"plan", "deck check", "sweep"})
    for (const std::string& line : examples(help_of(command))) {
      auto args = words_of(line);
      if (args[0] != "shardmark") continue;
      args.erase(args.begin());
      for (std::string& word : args)
        if (word.starts_with("inputs/")) word = SHARDMARK_TEST_INPUTS + word.substr(6);
      if (command == "sweep") args.insert(args.end(), {"--out", at.out()});
      EXPECT_EQ(run({.args = args}).status, 0) << line;
      ++tried;
    }
  EXPECT_GE(tried, 4);
}

TEST(Help, ShowsADeckThatIsSound) {
  const std::string help = help_of("");
  const auto first = help.find("\n  {"), last = help.find("\n\n", first);
  ASSERT_NE(first, std::string::npos);
  const Workplace at;
  at.write("text.txt", std::string(10000, 'a'));
  const std::string deck = at.write("deck.json", help.substr(first, last - first));
  EXPECT_EQ(run({.args = {"deck", "check", deck, "--ranks", "2"}}).status, 0);
}

TEST(Help, IsPrintedOnceForALaunch) {
  const Outcome launch = run({.args = {"plan", "--help"}, .ranks = 2});
  EXPECT_EQ(launch.status, 0);
  EXPECT_EQ(launch.out, help_of("plan"));
}

TEST(Help, ManPageKnowsEveryCommandAndOption) {
  std::string page = output_of({"--help-man"});
  for (std::size_t at = 0; (at = page.find("\\-", at)) != std::string::npos;) page.erase(at, 1);
  for (const std::string& command : commands()) {
    EXPECT_NE(page.find(".B shardmark " + command), std::string::npos) << command;
    for (const std::string& option : options(help_of(command)))
      EXPECT_NE(page.find("\\fB" + option + "\\fR"), std::string::npos) << command << option;
  }
}

TEST(Help, ManPageIsAcceptedByRoff) {
  const Workplace at;
  at.write("shardmark.1", output_of({"--help-man"}));
  if (!installed("groff")) GTEST_SKIP() << "no groff here";
  EXPECT_EQ(shell(at, "groff -ww -man -Tutf8 -z shardmark.1"), "");
  if (!installed("man")) return;
  EXPECT_EQ(shell(at, "man --warnings -E UTF-8 -l shardmark.1 2>&1 >/dev/null"), "");
}

TEST(Help, CompletionKnowsEveryCommandAndOption) {
  for (const std::string& script :
       {output_of({"--completion", "bash"}), output_of({"--completion", "zsh"}),
        output_of({"--completion", "fish"})})
    for (const std::string& command : commands()) {
      for (const std::string& word : words_of(command))
        EXPECT_NE(script.find(word), std::string::npos) << word;
      for (const std::string& option : options(help_of(command)))  // fish: -l set
        EXPECT_TRUE(script.find(option) != std::string::npos ||
                    script.find(" -l " + option.substr(2) + " ") != std::string::npos)
            << command << option;
    }
}

TEST(Help, ShellsAcceptTheirCompletion) {
  const Workplace at;
  for (const std::string name : {"bash", "zsh", "fish"}) {
    at.write(name, output_of({"--completion", name}));
    if (!installed(name)) continue;
    EXPECT_EQ(shell(at, name + " -n ./" + name), "");
  }
}

// What bash offers after these words, the last of which is being typed.
std::set<std::string> offered(const Workplace& at, const std::string& words) {
  const auto all = words_of(shell(at, "bash -c 'source ./complete; COMP_WORDS=(shardmark " + words +
                                          "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _shardmark; "
                                          "echo \"${COMPREPLY[@]}\"'"));
  return {all.begin(), all.end()};
}

TEST(Help, BashOffersWhatFits) {
  if (!installed("bash")) GTEST_SKIP() << "no bash here";
  const Workplace at;
  at.write("complete", output_of({"--completion", "bash"}));
  for (const std::string& command : commands()) {
    const auto known = options(help_of(command));
    EXPECT_EQ(offered(at, command + " --"), std::set<std::string>(known.begin(), known.end()));
  }
  using Set = std::set<std::string>;
  EXPECT_EQ(offered(at, "ckpt v"), Set{"verify"});
  EXPECT_EQ(offered(at, "plan --format \"\""), (Set{"text", "json", "dot"}));
  EXPECT_EQ(offered(at, "--completion \"\""), (Set{"bash", "zsh", "fish"}));
  at.write("a.json", "");
  at.write("b.txt", "");
  EXPECT_EQ(offered(at, "run a"), Set{"a.json"});
  EXPECT_EQ(offered(at, "run b"), Set{});
}

TEST(Help, NamesEveryFault) {
  const Workplace place;
  const Outcome o = run({.args = {"run", place.deck(0), "--out", place.out()},
                         .environment = {{"SHARDMARK_FAULT", "nonsense"}}});
  EXPECT_EQ(o.status, 2) << o.err;
  const std::string help = help_of("run");
  int names = 0;
  for (const std::string& word : words_of(o.err.substr(o.err.find("nonsense") + 8))) {
    std::string name = word.substr(0, word.find_first_of(",;:"));
    if (name.find('_') == std::string::npos) continue;
    ++names;
    EXPECT_NE(help.find(name), std::string::npos) << name << "\n" << o.err;
  }
  EXPECT_GT(names, 5) << o.err;
}

// A launcher's script reads them from the first page.
TEST(Help, OfTheProgramListsEveryStatusOfARun) {
  const auto all = names(help_of(""), "Exit status");
  for (const std::string& status : names(help_of("run"), "Exit status"))
    EXPECT_NE(std::find(all.begin(), all.end(), status), all.end()) << status;
}

}  // namespace
}  // namespace shardmark::test::help_test
