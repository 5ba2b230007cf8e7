// SPDX-License-Identifier: Apache-2.0
// `shardmark compare`, which reads reports and predictions.
#include <fstream>

#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/tools/compare/comparison.hpp>

namespace shardmark {

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
