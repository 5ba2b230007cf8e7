// SPDX-License-Identifier: Apache-2.0
// The signals that ask a run to stop: SIGINT, SIGTERM and SIGUSR1. A handler only sets a flag, on
// the thread of DeadlineGuard; the ranks look at the flags between steps (stop_agreement.hpp).
#pragma once

#include <cstdint>
#include <string_view>

namespace shardmark {

/// Why a run stops before its last step. If the ranks have different causes, the largest counts.
enum class StopCause : std::uint8_t { none, time_limit, sigusr1, sigint, sigterm };

/// "SIGTERM"; "run.time_limit_s" for the time limit.
std::string_view to_string(StopCause cause);

/// Installs the handlers for this process, and blocks the signals in the calling thread and in all
/// threads that it starts from here on. Call it before any other thread runs. Throws
/// std::system_error.
void catch_stop_signals();

/// Lets the calling thread run the handlers. Only a thread that makes no matrix product may call.
void receive_stop_signals();

/// The signal that asked this process to stop, or StopCause::none. Lock-free; any thread may call.
StopCause signal_received();

/// How often SIGINT and SIGTERM came together. Lock-free; any thread may call.
int urgent_signals_received();

}  // namespace shardmark
