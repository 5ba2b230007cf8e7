// SPDX-License-Identifier: Apache-2.0
// The text that is printed for an error.
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// One line: `failure.what`; for a defect of ShardMark also that it is one, and what to report.
std::string failure_text(const Failure& failure);

}  // namespace shardmark
