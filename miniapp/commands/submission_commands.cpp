// SPDX-License-Identifier: Apache-2.0
// `shardmark submit`, `verify` and `table`.
#include <filesystem>
#include <system_error>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/durable_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/submission/ranking.hpp>

namespace shardmark {
namespace {

std::string describe(const VerifiedRun& run) {
  std::string text =
      fmt::format("{}: {}: {} {}={:.6g}, {}, {}, {}\n", run.folder, printable(run.name),
                  run.refusals.empty() ? "verified" : "REFUSED", run.fom_name, run.fom,
                  plural(run.ranks, "rank"), run.official ? "official" : "unofficial",
                  to_string(run.division.division));
  for (const std::string& refusal : run.refusals) text += "  refused: " + printable(refusal) + "\n";
  for (const std::string& reason : run.division.reasons)
    text += fmt::format("  {}: {}\n", to_string(run.division.division), printable(reason));
  return text;
}

// Verifies all runs and appends what was found to `text`. The status is `invalid` if one is
// refused.
ExitStatus describe_runs(const Submission& submission, std::string& text) {
  ExitStatus status = ExitStatus::valid;
  for (const SubmittedRun& run : submission.runs) {
    const VerifiedRun found = verify_run(run);
    text += describe(found);
    if (!found.refusals.empty()) status = ExitStatus::invalid;
  }
  return status;
}

std::string text_of(const nlohmann::json& form, const std::string& name) {
  const auto it = form.find(name);
  return it != form.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

}  // namespace

ExitStatus submit_command(const SubmitArguments& arguments) {
  submit(arguments);
  const Submission submission = read_submission(arguments.out);
  std::string text = fmt::format("{}: {}\n", arguments.out,
                                 plural(static_cast<std::int64_t>(submission.runs.size()), "run"));
  const ExitStatus status = describe_runs(submission, text);
  if (const auto empty = empty_entries(submission); !empty.empty())
    text += fmt::format("still empty in the form: {}; give them by --form NAME=TEXT\n",
                        join(empty, ", "));
  print_out(text);
  return status;
}

ExitStatus verify_command(const VerifyArguments& arguments) {
  const Submission submission = read_submission(arguments.archive);
  std::string text;
  const ExitStatus status = describe_runs(submission, text);
  if (const auto empty = empty_entries(submission); !empty.empty())
    text += fmt::format("empty in the form: {}\n", join(empty, ", "));
  print_out(text + (status == ExitStatus::valid ? "VERIFIED\n" : "REFUSED\n"));
  return status;
}

ExitStatus table_command(const TableArguments& arguments) {
  std::vector<Ranked> runs;
  ExitStatus status = ExitStatus::valid;
  std::string left_out;
  for (const std::string& path : arguments.archives) {
    const Submission submission = read_submission(path);
    for (const SubmittedRun& run : submission.runs) {
      VerifiedRun found = verify_run(run);
      if (!found.refusals.empty()) {
        left_out += fmt::format("left out: {}: {}", path, describe(found));
        status = ExitStatus::invalid;
        continue;
      }
      runs.push_back({text_of(submission.form, "organisation"), text_of(submission.form, "system"),
                      text_of(submission.form, "processor"), path, std::move(found)});
    }
  }
  rank(runs);
  print_out(ranking_text(runs) + left_out);
  if (!arguments.out.empty()) {
    std::error_code error;
    std::filesystem::create_directories(arguments.out, error);
    if (error) fail_io(arguments.out, "cannot be made", error.message(), output_remedy);
    replace_file(arguments.out, "table.csv", ranking_csv(runs), output_remedy);
    replace_file(arguments.out, "table.html", ranking_html(runs), output_remedy);
  }
  return status;
}

}  // namespace shardmark
