// SPDX-License-Identifier: Apache-2.0
#include <miniapp/ranks/spans.hpp>

namespace shardmark {

std::vector<double> spans(const std::vector<double>& starts_s, const std::vector<double>& ends_s,
                          Peers& group) {
  std::vector<double> last = starts_s;
  last.insert(last.end(), ends_s.begin(), ends_s.end());
  group.max(last);
  std::vector<double> seconds(starts_s.size());
  for (std::size_t i = 0; i < seconds.size(); ++i) seconds[i] = last[seconds.size() + i] - last[i];
  return seconds;
}

}  // namespace shardmark
