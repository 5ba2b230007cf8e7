// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <set>

#include <fmt/core.h>

#include <core/error.hpp>
#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/files/hash.hpp>
#include <io/files/output_folder.hpp>
#include <io/files/regular_file.hpp>
#include <io/json/json_source.hpp>
#include <io/keys/nearest.hpp>
#include <miniapp/tools/submission/read/replan.hpp>
#include <miniapp/tools/submission/submission.hpp>

namespace shardmark {
namespace {

constexpr int format = 1;
constexpr const char* index_file = "submission.json";
constexpr std::int64_t largest_file = std::int64_t{64} << 20;
constexpr std::string_view run_remedy = "give the --out folder of a run that ended";

Json parsed_report(const std::string& text, const std::string& path) {
  Json report = Json::parse(text, nullptr, false);
  if (!report.is_object()) throw IoError(path + ": is no JSON object: " + std::string(run_remedy));
  return report;
}

void add_run(const std::string& folder, std::size_t number, ArchiveFiles& files) {
  const std::string name = fmt::format("runs/{}/", number);
  const std::string path = folder + "/" + report_file;
  const std::string report = read_regular_file(path, largest_file, run_remedy);
  const Json figures = parsed_report(report, path);
  try {
    files[name + "plan.txt"] = replan(ReportReader(figures)).text;
  } catch (const std::runtime_error& e) {
    throw IoError(fmt::format("{}: its plan cannot be made again: {}", path, e.what()));
  }
  files[name + report_file] = report;
  files[name + "deck.json"] = figures.at("deck").dump(2, ' ', true) + "\n";
  files[name + losses_file] =
      read_regular_file(folder + "/" + losses_file, largest_file, run_remedy);
}

Json filled_form(const std::vector<std::string>& entries, const Json& report) {
  Json form = Json::object();
  for (const std::string& name : form_entries) form[name] = "";
  const ReportReader reader(report);
  form["processor"] = reader.text("/ranks/0/processor");
  form["ranks"] = reader.integer("/world");
  form["software"] = reader.at("/versions");
  for (const std::string& entry : entries) {
    const std::size_t sign = entry.find('=');
    const std::string name = entry.substr(0, sign);
    if (sign == std::string::npos ||
        std::find(form_entries.begin(), form_entries.end(), name) == form_entries.end()) {
      const std::string meant =
          sign == std::string::npos ? "its text is missing" : did_you_mean(name, form_entries);
      throw DeckError(fmt::format("--form {}: give NAME=TEXT with one of {}{}", entry,
                                  join(form_entries, ", "), meant.empty() ? "" : "; " + meant));
    }
    form[name] = entry.substr(sign + 1);
  }
  return form;
}

const std::string& required(const ArchiveFiles& files, const std::string& name,
                            const std::string& path) {
  const auto it = files.find(name);
  if (it == files.end())
    throw IoError(fmt::format("{}: {} is missing: the archive is not a submission", path, name));
  return it->second;
}

void compare_checksums(const Json& index, const ArchiveFiles& files, const std::string& path) {
  const Json sums = index.value("checksums", Json::object());
  std::set<std::string> named{index_file};
  for (const auto& item : sums.items()) {
    named.insert(item.key());
    if (item.value() != hash_hex(required(files, item.key(), path)))
      throw IoError(
          fmt::format("{}: {}: the checksum is wrong: the file was changed after `submit`", path,
                      printable(item.key())));
  }
  for (const auto& [name, text] : files)
    if (!named.contains(name))
      throw IoError(
          fmt::format("{}: {}: the file is not listed in {}", path, printable(name), index_file));
}

}  // namespace

const std::vector<std::string> form_entries{"organisation", "contact", "system",  "nodes",
                                            "network",      "launch",  "changes", "remarks"};

void submit(const SubmitArguments& a) {
  ArchiveFiles files;
  for (std::size_t i = 0; i < a.folders.size(); ++i) add_run(a.folders[i], i + 1, files);
  if (!a.machine.empty())
    files["machine.json"] = read_regular_file(a.machine, largest_file, "give a machine file");
  if (!a.changes.empty())
    files["changes.diff"] =
        read_regular_file(a.changes, largest_file, "give the output of git diff");
  Json index;
  index["format"] = format;
  index["form"] = filled_form(a.form, Json::parse(files.at("runs/1/report.json")));
  for (const auto& [name, text] : files) index["checksums"][name] = hash_hex(text);
  files[index_file] = index.dump(2, ' ', true) + "\n";
  write_archive(a.out, files);
}

Submission read_submission(const std::string& path) {
  Submission submission;
  submission.files = read_archive(path);
  const Json index = Json::parse(required(submission.files, index_file, path), nullptr, false);
  if (!index.is_object() || index.value("format", Json()) != format)
    throw IoError(fmt::format("{}: {}: not format {} of a submission", path, index_file, format));
  compare_checksums(index, submission.files, path);
  submission.form = index.value("form", Json::object());
  if (!submission.form.is_object())
    throw IoError(fmt::format("{}: {}: form: must be an object of entries", path, index_file));
  for (int number = 1;; ++number) {
    const std::string folder = fmt::format("runs/{}", number);
    if (!submission.files.contains(folder + "/" + report_file)) break;
    SubmittedRun run{.folder = folder, .report = {}, .losses = {}, .deck = {}, .plan = {}};
    const std::string name = folder + "/" + report_file;
    run.report = parsed_report(submission.files.at(name), path + ": " + name);
    run.losses = required(submission.files, folder + "/" + losses_file, path);
    run.deck = required(submission.files, folder + "/deck.json", path);
    run.plan = required(submission.files, folder + "/plan.txt", path);
    submission.runs.push_back(std::move(run));
  }
  if (submission.runs.empty())
    throw IoError(path + ": contains no run: the archive is not a submission");
  return submission;
}

}  // namespace shardmark
