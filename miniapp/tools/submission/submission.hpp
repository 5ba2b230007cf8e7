// SPDX-License-Identifier: Apache-2.0
// A submission: an archive with the results of runs, what they were made from, and a form.
//   submission.json                 format, form, and the checksum of every other file
//   runs/1/{report.json,losses.csv,deck.json,plan.txt}, runs/2/…
//   machine.json, changes.diff      if they are given
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include <io/archive/archive.hpp>

namespace shardmark {

/// Arguments of `shardmark submit`.
struct SubmitArguments {
  std::vector<std::string> folders;    // --out folders of runs
  std::string out = "submission.zip";  // the archive
  std::vector<std::string> form;       // "organisation=…", entries of the form
  std::string machine, changes;        // files; may be empty
};

/// One run of a submission.
struct SubmittedRun {
  std::string folder;  // "runs/1"
  nlohmann::json report;
  std::string losses, deck, plan;  // the files beside it
};

/// The content of an archive.
struct Submission {
  nlohmann::json form = nlohmann::json::object();
  std::vector<SubmittedRun> runs;
  ArchiveFiles files;
};

/// What a form asks for. An empty entry is allowed in an archive, but `verify` names it.
extern const std::vector<std::string> form_entries;

/// Packs runs into an archive. Throws IoError if a folder has no report or its plan cannot be made
/// again, and DeckError for an unknown entry of the form.
void submit(const SubmitArguments& arguments);

/// Reads an archive. Throws IoError if it is no submission, a file is missing or unknown, or a
/// checksum is wrong.
Submission read_submission(const std::string& path);

}  // namespace shardmark
