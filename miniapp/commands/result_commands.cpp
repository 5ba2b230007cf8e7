// SPDX-License-Identifier: Apache-2.0
// `shardmark submit`, `verify`, `table` and `compare`, which read the results of runs.
#include <filesystem>
#include <fstream>
#include <system_error>

#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/durable_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/tools/compare/comparison.hpp>
#include <miniapp/tools/submission/ranking.hpp>

namespace shardmark {

namespace {

constexpr std::size_t most_refusals = 20;

std::string describe(const VerifiedRun& run) {
  // A report that cannot be read has no figures.
  const std::string figures =
      run.fom_name.empty()
          ? std::string("no figure of merit can be read")
          : fmt::format("{}={:.6g}, {}, {}, {}", printable(run.fom_name), run.fom,
                        plural(run.ranks, "rank"), run.official ? "official" : "unofficial",
                        to_string(run.division.division));
  std::string text =
      fmt::format("{}: {}: {} {}\n", run.folder, run.name.empty() ? "no name" : printable(run.name),
                  run.refusals.empty() ? "verified" : "REFUSED", figures);
  const std::size_t shown = std::min(run.refusals.size(), most_refusals);
  for (std::size_t i = 0; i < shown; ++i) text += "  refused: " + printable(run.refusals[i]) + "\n";
  if (shown < run.refusals.size())
    text += fmt::format("  refused: {} more figures do not add up\n", run.refusals.size() - shown);
  for (const std::string& reason : run.reasons)
    text += fmt::format("  unofficial: {}\n", printable(reason));
  return text;
}

// Verifies all runs and appends what was found to `text`. The status is `invalid` if one is
// refused.
ExitStatus describe_runs(const Submission& submission, std::string& text) {
  ExitStatus status = ExitStatus::valid;
  for (const VerifiedRun& found : verify_submission(submission)) {
    text += describe(found);
    if (!found.refusals.empty()) status = ExitStatus::invalid;
  }
  return status;
}

std::string text_of(const nlohmann::json& form, const std::string& name) {
  const auto it = form.find(name);
  return it != form.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

// Adds the verified runs of an archive. A run that another archive has already is left out: one run
// counts once.
void add_runs(const std::string& path, std::vector<Ranked>& runs, std::string& left_out) {
  const Submission submission = read_submission(path);
  for (VerifiedRun& found : verify_submission(submission)) {
    for (const Ranked& other : runs)
      if (same_run(found.mark, other.run.mark))
        found.refusals.push_back(
            fmt::format("this is the same run as {} of {}", other.run.folder, other.file));
    if (!found.refusals.empty()) {
      left_out += fmt::format("left out: {}: {}", printable(path), describe(found));
      continue;
    }
    runs.push_back({text_of(submission.form, "organisation"), text_of(submission.form, "system"),
                    found.processor, path, std::move(found)});
  }
}

}  // namespace

ExitStatus submit_command(const SubmitArguments& arguments) {
  submit(arguments);
  const Submission submission = read_submission(arguments.out);
  std::string text =
      fmt::format("{}: {}\n", arguments.out, plural(std::ssize(submission.runs), "run"));
  const ExitStatus status = describe_runs(submission, text);
  if (const auto empty = empty_entries(submission); !empty.empty())
    text += fmt::format("still empty in the form: {}; give them by --form NAME=TEXT\n",
                        join(empty, ", "));
  if (status != ExitStatus::valid)
    text += fmt::format(
        "{} is written, but a run in it is refused: `verify` refuses the archive, and `table` "
        "leaves the run out\n",
        arguments.out);
  print_out(text);
  return status;
}

ExitStatus verify_command(const std::string& archive) try {
  const Submission submission = read_submission(archive);
  std::string text;
  const ExitStatus status = describe_runs(submission, text);
  if (const auto empty = empty_entries(submission); !empty.empty())
    text += fmt::format("empty in the form: {}\n", join(empty, ", "));
  print_out(text + (status == ExitStatus::valid ? "VERIFIED\n" : "REFUSED\n"));
  return status;
} catch (const IoError&) {  // an archive that cannot be read is not verified either
  print_out("REFUSED\n");
  throw;
}

ExitStatus table_command(const TableArguments& arguments) {
  std::vector<Ranked> runs;
  std::string left_out;
  for (const std::string& path : arguments.archives) add_runs(path, runs, left_out);
  const Ranking ranking = rank(runs);
  print_out(ranking_text(ranking) + left_out);
  if (!arguments.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) fail_io(arguments.out, "cannot be made", error.message(), output_remedy);
    replace_file(arguments.out, "table.csv", ranking_csv(ranking), output_remedy);
    replace_file(arguments.out, "table.html", ranking_html(ranking), output_remedy);
  }
  return left_out.empty() ? ExitStatus::valid : ExitStatus::invalid;
}

ExitStatus compare_command(const CompareArguments& a) {
  std::vector<Subject> subjects;
  for (const std::string& path : a.files)
    for (Subject& s : read_subjects(path)) subjects.push_back(std::move(s));
  if (subjects.size() < 2)
    throw DeckError(a.files.front() +
                    ": there is nothing to compare it with: give two or more reports");
  const Comparison comparison = compare(std::move(subjects));
  if (!a.html.empty()) {
    std::ofstream page(a.html);
    page << comparison_html(comparison);
    page.close();
    if (!page) throw IoError(a.html + ": cannot be written: give another --html");
  }
  print_out(a.format == "json"
                ? comparison_json(comparison)
                          .dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) +
                      "\n"
                : comparison_text(comparison));
  return ExitStatus::valid;
}

}  // namespace shardmark
