// SPDX-License-Identifier: Apache-2.0
// Printing whose errors are found.
#pragma once

#include <string_view>

namespace shardmark {

/// Writes to standard output and flushes it, so that a full disk is found here and not after the
/// exit status is decided. Local. Throws IoError.
void print_out(std::string_view text);

/// Prints "shardmark: " and `what` on standard error, on one line whatever it contains; nothing if
/// `what` is empty, as it is on ranks that leave the message to another. An error of standard error
/// is not reported, because nothing is left to report it on.
void print_error(std::string_view what) noexcept;
/// The same without the program's name, for the progress of long work.
void print_note(std::string_view text) noexcept;

/// Opens /dev/null for each standard stream that is closed, so that no file which is opened later
/// takes its place. To be called before anything is opened.
void open_standard_streams() noexcept;

}  // namespace shardmark
