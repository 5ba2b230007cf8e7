// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <io/keys/nearest.hpp>

namespace shardmark {

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<int> older(b.size() + 1), old(b.size() + 1), now(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) old[j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i) {
    now[0] = static_cast<int>(i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int substitute = old[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      now[j] = std::min({old[j] + 1, now[j - 1] + 1, substitute});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        now[j] = std::min(now[j], older[j - 2] + 1);
    }
    std::swap(older, old);
    std::swap(old, now);
  }
  return old[b.size()];
}

std::string nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 80;  // no key is longer; this keeps hostile keys cheap
  if (word.empty() || word.size() > longest) return {};
  const int limit = word.size() < 4 ? 1 : std::max(2, static_cast<int>(word.size()) / 3);
  int best = limit + 1;
  std::string result;
  for (const std::string& candidate : known) {
    if (const int distance = edit_distance(word, candidate); distance < best) {
      best = distance;
      result = candidate;
    }
  }
  return result;
}

}  // namespace shardmark
