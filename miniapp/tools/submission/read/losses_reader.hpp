// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include <io/files/output_folder.hpp>
#include <miniapp/tools/submission/read/report_reader.hpp>

namespace shardmark {

/// Reads what `losses_csv` wrote. Throws ReportError that names the line.
std::vector<LossRow> read_losses(const std::string& text);

}  // namespace shardmark
