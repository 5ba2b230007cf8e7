// SPDX-License-Identifier: Apache-2.0
// Signals by which a process would end without a status of its own. A launcher may report the
// signal's number as the status: MPICH's gives 6 for SIGABRT, which would read as a run that was
// stopped, and 4 for SIGILL, which would read as a failed write.
#pragma once

#include <string>

#include <core/error.hpp>

namespace shardmark {

/// From here on, SIGABRT ends the process with one line on standard error and the status of a
/// defect, and SIGILL with one line and the status of a build that does not suit its machine. Call
/// it once, before other threads run. Throws std::system_error.
void end_fatal_signals_with_a_status();

/// One line: `failure.what`; for a defect of ShardMark also that it is one, and what to report.
std::string failure_text(const Failure& failure);

}  // namespace shardmark
