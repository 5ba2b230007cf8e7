// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include <io/files/hash.hpp>
#include <miniapp/report/report_checksum.hpp>

namespace shardmark {

std::string report_dump(const nlohmann::ordered_json& report) {
  return report.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace);
}

// Parsed again first, so that numbers and texts are those that a reader of the file has.
nlohmann::json report_checksum(const nlohmann::ordered_json& report, const std::string& losses) {
  return report_checksum(nlohmann::json::parse(report_dump(report)), losses);
}

nlohmann::json report_checksum(nlohmann::json report, const std::string& losses) {
  report.erase("checksum");
  return {{"report", hash_hex(report.dump(-1, ' ', true))}, {"losses", hash_hex(losses)}};
}

}  // namespace shardmark
