// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <map>

#include <miniapp/predict/prediction.hpp>
#include <miniapp/tools/advise/crossings.hpp>

namespace shardmark {
namespace {

constexpr int halvings = 6, doublings = 4, bisections = 5;
constexpr double least_gain = 0.01;

NetworkLevel* level_between(Machine& machine, int ranks, int ranks_per_node) {
  NetworkLevel* found = nullptr;
  for (NetworkLevel& level : machine.network)
    if (level.between_nodes == (ranks > ranks_per_node)) found = &level;
  return found;
}

// The contenders' steps on the machine with another bandwidth.
class Contest {
 public:
  Contest(const AdviseCase& question, const std::vector<Candidate>& contenders)
      : question_(question) {
    for (const Candidate& c : contenders) {
      Entry& entry = entries_.emplace_back(Entry{changed_deck(question, c.changes), {}});
      entry.programs = distinct_programs(entry.deck, program_of(question, c.changes), per_node());
    }
  }
  // By contender; a bandwidth that was asked for before is not priced again.
  const std::vector<double>& seconds(double factor) {
    std::vector<double>& all = known_[factor];
    if (!all.empty()) return all;
    const Machine machine =
        with_network_rate(*question_.machine, question_.ranks, question_.ranks_per_node, factor);
    for (const Entry& entry : entries_)
      all.push_back(step_time(entry.deck, entry.programs, machine, per_node()).seconds);
    return all;
  }
  std::size_t winner(double factor) {
    const std::vector<double>& s = seconds(factor);
    return static_cast<std::size_t>(std::min_element(s.begin(), s.end()) - s.begin());
  }
  double gain(std::size_t candidate, double factor) {
    const std::vector<double>& s = seconds(factor);
    return 1 - s[candidate] / s[0];
  }
  // The factor between `near` and `far` at which `candidate` stops to be the winner.
  double end_of(std::size_t candidate, double near, double far) {
    for (int i = 0; i < bisections; ++i) {
      const double middle = std::sqrt(near * far);
      (winner(middle) == candidate ? near : far) = middle;
    }
    return std::sqrt(near * far);
  }

 private:
  struct Entry {
    Deck deck;
    std::vector<Program> programs;  // of the ranks that differ
  };
  int per_node() const { return std::min(question_.ranks, question_.ranks_per_node); }

  const AdviseCase& question_;
  std::vector<Entry> entries_;
  std::map<double, std::vector<double>> known_;  // seconds by factor
};

// The winners' ranges from the machine's own bandwidth outwards, to one side. `rate` times a factor
// is a bandwidth.
std::vector<Crossing> on_one_side(Contest& contest, double rate, bool below) {
  std::vector<Crossing> found;
  std::size_t current = 0;
  double near = 1;
  for (int step = 1; step <= (below ? halvings : doublings); ++step) {
    const double far = std::pow(2.0, below ? -step : step);
    const std::size_t now = contest.winner(far);
    if (now != current) {
      const double at = rate * contest.end_of(current, near, far);
      if (!found.empty() && found.back().candidate == current) found.back().until_bytes_per_s = at;
      if (now != 0) found.push_back({at, below, rate * far, 0, now});
    } else if (now != 0) {
      found.back().until_bytes_per_s = rate * far;
    }
    if (now != 0) found.back().gain = std::max(found.back().gain, contest.gain(now, far));
    current = now;
    near = far;
  }
  std::erase_if(found, [](const Crossing& c) { return c.gain < least_gain; });
  return found;
}

// Two ranges of one candidate that a range without gain had separated become one.
void merge_neighbours(std::vector<Crossing>& ranges) {
  for (std::size_t i = 1; i < ranges.size();)
    if (ranges[i].candidate == ranges[i - 1].candidate) {
      ranges[i - 1].until_bytes_per_s = ranges[i].until_bytes_per_s;
      ranges[i - 1].gain = std::max(ranges[i - 1].gain, ranges[i].gain);
      ranges.erase(ranges.begin() + static_cast<std::ptrdiff_t>(i));
    } else {
      ++i;
    }
}

}  // namespace

std::vector<Crossing> crossings_of(const AdviseCase& question,
                                   const std::vector<Candidate>& contenders) {
  const double rate = network_rate(*question.machine, question.ranks, question.ranks_per_node);
  if (rate <= 0 || contenders.size() < 2) return {};
  Contest contest(question, contenders);
  std::vector<Crossing> all = on_one_side(contest, rate, true);
  merge_neighbours(all);
  std::reverse(all.begin(), all.end());
  std::vector<Crossing> above = on_one_side(contest, rate, false);
  merge_neighbours(above);
  all.insert(all.end(), above.begin(), above.end());
  return all;
}

double network_rate(const Machine& machine, int ranks, int ranks_per_node) {
  Machine copy = machine;
  const NetworkLevel* level = level_between(copy, ranks, ranks_per_node);
  if (level == nullptr) return 0;
  if (level->node_bytes_per_s > 0) return level->node_bytes_per_s;
  return level->link.bytes_per_s * (level->between_nodes ? ranks_per_node : 1);
}

Machine with_network_rate(Machine machine, int ranks, int ranks_per_node, double factor) {
  NetworkLevel* level = level_between(machine, ranks, ranks_per_node);
  if (level == nullptr) return machine;
  level->link.bytes_per_s *= factor;
  level->node_bytes_per_s *= factor;
  if (level->nccl)
    for (NcclChannels* c : {&level->nccl->ring, &level->nccl->tree, &level->nccl->nvls})
      c->bytes_per_s *= factor;
  for (CollectiveTimes& t : level->collectives)
    if (!t.points.empty()) {
      const double latency = t.points.front().seconds;
      for (TimePoint& p : t.points) p.seconds = latency + (p.seconds - latency) / factor;
    }
  return machine;
}

}  // namespace shardmark
