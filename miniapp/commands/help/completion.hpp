// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace shardmark {

/// A script for `shell` (bash, zsh or fish) that completes commands, options and their values.
/// Throws std::logic_error: another shell.
std::string completion(std::string_view shell);

/// The completion script for each shell, to be sourced or installed.
std::string bash_completion();
std::string zsh_completion();
std::string fish_completion();

/// Text between single quotes, as every shell here takes it literally.
std::string shell_quoted(std::string_view text);

/// The first sentence of a text, without its full stop and without backticks.
std::string first_sentence(std::string_view text);

}  // namespace shardmark
