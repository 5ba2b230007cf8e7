// SPDX-License-Identifier: Apache-2.0
// Archives as somebody makes them who changes a report and also mends every checksum, so that a
// test sees what the other checks find.
#pragma once

#include <functional>
#include <string>

#include <io/archive/archive.hpp>
#include <io/files/hash.hpp>
#include <tests/support/workplace.hpp>

namespace shardmark::test {

/// The text of a report with the checksum of itself and of losses.csv.
inline std::string mended_report(Json report, const std::string& losses) {
  report.erase("checksum");
  report["checksum"] = {{"report", hash_hex(report.dump(-1, ' ', true))},
                        {"losses", hash_hex(losses)}};
  return report.dump(2);
}

/// Mends the checksums that `submission.json` has of the other files.
inline void mend_index(ArchiveFiles& files) {
  Json index = Json::parse(files.at("submission.json"));
  index["checksums"] = Json::object();
  for (const auto& [name, text] : files)
    if (name != "submission.json") index["checksums"][name] = hash_hex(text);
  files["submission.json"] = index.dump();
}

/// Changes the report and losses.csv of one run, and mends all checksums.
inline void change_run(ArchiveFiles& files, const std::string& folder,
                       const std::function<void(Json& report, std::string& losses)>& change) {
  Json report = Json::parse(files.at(folder + "/report.json"));
  std::string& losses = files.at(folder + "/losses.csv");
  change(report, losses);
  files[folder + "/report.json"] = mended_report(report, losses);
  mend_index(files);
}

/// losses.csv with another time for each step: `change` is given the step and its seconds.
inline std::string with_times(const std::string& losses,
                              const std::function<double(int step, double seconds)>& change) {
  std::string text = losses.substr(0, losses.find('\n') + 1);
  for (std::size_t at = text.size(); at < losses.size();) {
    const std::size_t end = losses.find('\n', at);
    const std::string line = losses.substr(at, end - at);
    const std::size_t comma = line.rfind(',');
    text += line.substr(0, comma + 1) +
            Json(change(std::stoi(line), std::stod(line.substr(comma + 1)))).dump() + "\n";
    at = end + 1;
  }
  return text;
}

}  // namespace shardmark::test
