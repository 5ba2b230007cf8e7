// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include <miniapp/tools/advise/distinct.hpp>
#include <miniapp/tools/advise/knobs.hpp>

namespace shardmark {
namespace {

// Sums of the same events in another order differ in their last digits.
constexpr double same_time = 1e-9;

bool same_but_for_stage(const Candidate& a, const Candidate& b) {
  return a.schedule == b.schedule && a.exact == b.exact && a.bytes == b.bytes &&
         std::abs(a.step_s - b.step_s) <= same_time * a.step_s;
}

bool same_plan(const Candidate& a, const Candidate& b) {
  return a.stage == b.stage && same_but_for_stage(a, b);
}

void absorb(Candidate& kept, const Candidate& other) {
  for (const IdleKey& idle : other.without_effect) merge_idle(kept.without_effect, idle);
  DeckChanges either = kept.changes;
  either.insert(either.end(), other.changes.begin(), other.changes.end());
  for (const KnobChange& c : knob_changes(either, kept.values, other.values))
    merge_idle(kept.without_effect, {std::string(c.key), {c.from, c.to}});
}

void absorb_plainer(Candidate& kept, Candidate other) {
  if (other.changes.size() < kept.changes.size()) std::swap(kept, other);
  absorb(kept, other);
}

template<class Same, class Absorb>
std::vector<Candidate> merged(std::vector<Candidate> candidates, const Same& same,
                              const Absorb& absorb_into) {
  std::vector<Candidate> kept;
  for (Candidate& c : candidates) {
    const auto found = std::find_if(kept.begin(), kept.end(),
                                    [&](const Candidate& other) { return same(other, c); });
    if (found == kept.end())
      kept.push_back(std::move(c));
    else
      absorb_into(*found, std::move(c));
  }
  return kept;
}

}  // namespace

void merge_idle(std::vector<IdleKey>& keys, const IdleKey& more) {
  auto it =
      std::find_if(keys.begin(), keys.end(), [&](const IdleKey& k) { return k.key == more.key; });
  if (it == keys.end()) {
    keys.push_back({more.key, {}});
    it = std::prev(keys.end());
  }
  for (const std::string& value : more.values)
    if (std::find(it->values.begin(), it->values.end(), value) == it->values.end())
      it->values.push_back(value);
}

std::vector<Candidate> distinct(std::vector<Candidate> candidates) {
  return merged(std::move(candidates), same_plan, absorb_plainer);
}

std::vector<Candidate> distinct_but_for_stage(std::vector<Candidate> candidates) {
  return merged(std::move(candidates), same_but_for_stage, absorb);
}

}  // namespace shardmark
