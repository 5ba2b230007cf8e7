// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/keys/nearest.hpp>

namespace shardmark {
namespace {

constexpr char part_mark = '-';

// A word as it is compared: in lower case, with one kind of part_mark at its ends and between its
// parts, so that "-part-" can be searched for.
std::string folded(std::string_view word) {
  std::string text(1, part_mark);
  for (const char c : lower_case(word)) {
    const bool separates = c == '_' || c == '-' || c == '.' || c == ' ';
    if (!separates) text += c;
    if (separates && text.back() != part_mark) text += part_mark;
  }
  if (text.back() != part_mark) text += part_mark;
  return text;
}

// What a word was folded to, without the separators at its ends.
std::string_view inside(const std::string& word) {
  return word.size() < 2 ? std::string_view() : std::string_view(word).substr(1, word.size() - 2);
}

bool has_text(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Every part of `word` is a part of `candidate`, in any order.
bool has_the_parts_of(const std::string& word, const std::string& candidate) {
  for (std::size_t begin = 0; begin + 1 < word.size();) {
    const std::size_t end = word.find(part_mark, begin + 1);
    if (!has_text(candidate, std::string_view(word).substr(begin, end + 1 - begin))) return false;
    begin = end;
  }
  return word.size() > 2;
}

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

// `text` stands in `candidate` where a part or a number begins.
bool begins_in(std::string_view text, const std::string& candidate) {
  for (std::size_t at = candidate.find(text); at != std::string::npos;
       at = candidate.find(text, at + 1)) {
    const char before = candidate[at - 1];
    if (before == part_mark || (is_digit(text.front()) && !is_digit(before))) return true;
  }
  return false;
}

// The most slips that a word of so many letters may have.
int most_slips(std::size_t letters) {
  if (letters < 5) return 1;
  return std::max(2, static_cast<int>(letters) / 3);
}

/// The known words beside the one that was typed, as they are compared.
class Candidates {
 public:
  Candidates(std::string_view word, const std::vector<std::string>& words)
      : word_(folded(word)), known_(words) {
    for (const std::string& k : words) folded_.push_back(folded(k));
  }

  std::vector<std::string> meant() const {
    constexpr std::size_t shortest_part = 3, shortest_within = 4;
    const std::string_view typed = inside(word_);
    auto found = all_that([&](const std::string& c) { return c == word_; });
    if (found.empty())
      found = all_that([&](const std::string& c) { return has_the_parts_of(word_, c); });
    if (found.empty()) found = within(1);
    if (found.empty() && typed.size() >= shortest_part)
      found = all_that([&](const std::string& c) { return begins_in(typed, c); });
    if (found.empty() && typed.size() >= shortest_within)
      found = all_that([&](const std::string& c) { return has_text(c, typed); });
    if (found.empty()) found = contained();
    return found.empty() ? within(most_slips(typed.size())) : found;
  }

 private:
  template<class F>
  std::vector<std::string> all_that(const F& fits) const {
    std::vector<std::string> found;
    for (std::size_t i = 0; i < known_.size(); ++i)
      if (fits(folded_[i])) found.push_back(known_[i]);
    std::ranges::stable_sort(found, {}, [](const std::string& word) { return word.size(); });
    return found;
  }

  // Those at the smallest distance, which is at most `limit`.
  std::vector<std::string> within(int limit) const {
    int best = limit + 1;
    const auto distance_to = [&](const std::string& c) {
      return edit_distance(inside(word_), inside(c));
    };
    for (const std::string& c : folded_) best = std::min(best, distance_to(c));
    if (best > limit) return {};
    return all_that([&](const std::string& c) { return distance_to(c) == best; });
  }

  // The longest known word that what was typed contains or begins with, if it is at least half of
  // it.
  std::vector<std::string> contained() const {
    constexpr std::size_t shortest = 3;
    const std::string_view typed = inside(word_);
    const auto is_in = [&](const std::string& c) {
      const std::string_view k = inside(c);
      return k.size() >= std::max(shortest, (typed.size() + 1) / 2) &&
             (has_the_parts_of(c, word_) || typed.starts_with(k));
    };
    std::size_t longest = 0;
    for (const std::string& c : folded_)
      if (is_in(c)) longest = std::max(longest, c.size());
    return all_that([&](const std::string& c) { return c.size() == longest && is_in(c); });
  }

  std::string word_;
  const std::vector<std::string>& known_;
  std::vector<std::string> folded_;
};

}  // namespace

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

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& known) {
  constexpr std::size_t longest = 80;  // no key is longer; this keeps hostile keys cheap
  if (word.empty() || word.size() > longest) return {};
  return Candidates(word, known).meant();
}

std::string did_you_mean(std::string_view word, const std::vector<std::string>& known,
                         std::string_view quote) {
  constexpr std::size_t most = 12;
  const std::vector<std::string> meant = nearest(word, known);
  const std::size_t shown = std::min(meant.size(), most);
  std::string text;
  for (std::size_t i = 0; i < shown; ++i) {
    const bool last = i + 1 == meant.size();
    text += fmt::format("{}{}{}{}",
                        i == 0 ? "did you mean "
                        : last ? " or "
                               : ", ",
                        quote, meant[i], quote);
  }
  if (shown < meant.size()) text += fmt::format(" or one of {} others", meant.size() - shown);
  return text.empty() ? text : text + "?";
}

}  // namespace shardmark
