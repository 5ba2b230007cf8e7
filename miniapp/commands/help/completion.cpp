// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <stdexcept>

#include <miniapp/commands/help/completion.hpp>

namespace shardmark {

std::string completion(std::string_view shell) {
  if (shell == "bash") return bash_completion();
  if (shell == "zsh") return zsh_completion();
  if (shell == "fish") return fish_completion();
  throw std::logic_error("no completion for the shell " + std::string(shell));
}

std::string shell_quoted(std::string_view text) {
  std::string out = "'";
  for (const char c : text) out += c == '\'' ? std::string(R"('\'')") : std::string(1, c);
  return out + "'";
}

std::string first_sentence(std::string_view text) {
  std::string sentence(text.substr(0, text.find(". ")));
  if (sentence.ends_with('.')) sentence.pop_back();
  sentence.erase(std::remove(sentence.begin(), sentence.end(), '`'), sentence.end());
  return sentence;
}

}  // namespace shardmark
