// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include <fmt/core.h>
#include <unistd.h>

#include <comm/collective.hpp>
#include <comm/decorators/watchdog.hpp>
#include <comm/mpi/mpi_check.hpp>
#include <core/clock.hpp>
#include <core/error.hpp>

namespace shardmark {
namespace {

constexpr int message_tag = 1;
constexpr std::int64_t second_ns = 1'000'000'000;
constexpr std::int64_t longest_grace_ns = 5 * second_ns;
constexpr std::int64_t shortest_grace_ns = second_ns / 2;  // an answer needs some time to arrive
constexpr std::int64_t poll_interval_ns = second_ns / 1000;
// A rank that has not polled for this long was computing or stopped; its own timeout starts again.
constexpr std::int64_t absence_ns = second_ns;

std::string describe(const WatchedLane::Call& call) {
  Collective c;
  c.op = call.op, c.name = call.name;
  return shardmark::describe(c);
}

}  // namespace

Watchdog::Watchdog(MPI_Comm world, double timeout_s, Idle idle)
    : comm_(OwnedComm::duplicate(world)),
      rank_(comm_rank(world)),
      size_(comm_size(world)),
      idle_(idle),
      lowest_asker_(size_) {
  set_timeout(timeout_s);
  if (!(timeout_s > 0))
    throw CommError(fmt::format("comm.timeout_s = {}: must be above 0", timeout_s));
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  SHARDMARK_MPI(MPI_Get_processor_name(host, &length));
  Process own{};
  std::memcpy(own.host, host, std::min<std::size_t>(length, sizeof own.host - 1));
  own.pid = getpid();
  processes_.resize(static_cast<std::size_t>(size_));
  SHARDMARK_MPI(MPI_Allgather(&own, sizeof own, MPI_BYTE, processes_.data(), sizeof own, MPI_BYTE,
                              comm_.get()));
}

void Watchdog::set_timeout(double timeout_s) {
  timeout_ns_ = static_cast<std::int64_t>(timeout_s * 1e9);
  grace_ns_ = std::clamp(timeout_ns_, shortest_grace_ns, longest_grace_ns);
}

// No receive is ever posted, so none has to be cancelled: cancelling is slow or impossible over
// some networks, and a receive that is left open keeps MPI_Finalize waiting.
Watchdog::~Watchdog() {
  int complete = 1;
  for (Outgoing& out : outgoing_) {
    if (!abandoned_)  // these answer questions that were dropped: all ranks live and receive them
      report_mpi(MPI_Wait(&out.request, MPI_STATUS_IGNORE), "MPI_Wait");
    else if (complete)
      report_mpi(MPI_Test(&out.request, &complete, MPI_STATUS_IGNORE), "MPI_Test");
  }
  if (!abandoned_) return;
  comm_.release();
  // MPI may still read messages that a stopped rank has not received, so their memory is leaked.
  if (!complete) static_cast<void>(new (std::nothrow) std::list<Outgoing>(std::move(outgoing_)));
}

WatchdogMessage::Wait Watchdog::own_wait(std::uint64_t other_than) const {
  const WatchedLane* longest = nullptr;
  for (const auto& [id, lane] : lanes_)
    if (id != other_than && lane->done < lane->started &&
        (longest == nullptr || lane->oldest_since_ns < longest->oldest_since_ns))
      longest = lane;
  WatchdogMessage::Wait wait;
  if (longest == nullptr) return wait;
  wait.lane = longest->id, wait.done = longest->done, wait.call = longest->oldest;
  const std::vector<int>& ranks = longest->ranks;
  wait.first = ranks.front();
  wait.stride = ranks.size() > 1 ? ranks[1] - ranks[0] : 1;
  wait.count = static_cast<std::int32_t>(ranks.size());
  for (std::size_t i = 0; i < ranks.size(); ++i)
    if (ranks[i] != wait.first + static_cast<int>(i) * wait.stride) wait.count = 0;
  return wait;
}

void Watchdog::send(WatchdogMessage::Kind kind, std::uint64_t lane, int to) {
  Outgoing& out = outgoing_.emplace_back();
  out.message.kind = kind;
  out.message.lane = lane;
  if (const auto it = lanes_.find(lane); it != lanes_.end()) {
    const WatchedLane& own = *it->second;
    out.message.known = 1;
    out.message.started = own.started;
    out.message.done = own.done;
    out.message.current = own.done < own.started ? own.oldest : own.last;
  }
  out.message.wait = own_wait(lane);
  SHARDMARK_MPI(MPI_Isend(&out.message, sizeof out.message, MPI_BYTE, to, message_tag, comm_.get(),
                          &out.request));
}

void Watchdog::handle(const WatchdogMessage& message, int source) {
  if (message.kind == WatchdogMessage::Kind::ask) {
    lowest_asker_ = std::min(lowest_asker_, source);
    send(WatchdogMessage::Kind::answer, message.lane, source);
  }
  // A question carries the same state as an answer.
  if (Asked* asked = find_asked(message.lane)) asked->answers[source] = message;
}

void Watchdog::poll() {
  for (;;) {
    int arrived = 0;
    MPI_Status status;
    SHARDMARK_MPI(MPI_Iprobe(MPI_ANY_SOURCE, message_tag, comm_.get(), &arrived, &status));
    if (!arrived) break;
    WatchdogMessage message;
    SHARDMARK_MPI(MPI_Recv(&message, sizeof message, MPI_BYTE, status.MPI_SOURCE, message_tag,
                           comm_.get(), MPI_STATUS_IGNORE));
    handle(message, status.MPI_SOURCE);
  }
  for (auto out = outgoing_.begin(); out != outgoing_.end();) {
    int complete = 0;
    SHARDMARK_MPI(MPI_Test(&out->request, &complete, MPI_STATUS_IGNORE));
    out = complete ? outgoing_.erase(out) : std::next(out);
  }
}

bool Watchdog::poll_overdue(const WatchedLane& lane) {
  const std::int64_t now = monotonic_ns();
  if (now - last_poll_ns_ < poll_interval_ns) return false;
  if (now - last_poll_ns_ > absence_ns) waiting_since_ns_ = now;
  last_poll_ns_ = now;
  poll();
  if (lane.done == lane.started) return false;
  return now - std::max(lane.oldest_since_ns, waiting_since_ns_) > timeout_ns_;
}

void Watchdog::ask(Asked asked) {
  asked_ns_ = monotonic_ns();
  for (const int r : asked.ranks)
    if (r != rank_) send(WatchdogMessage::Kind::ask, asked.lane, r);
  chain_.push_back(std::move(asked));
}

Watchdog::Asked* Watchdog::find_asked(std::uint64_t lane) {
  for (Asked& asked : chain_)
    if (asked.lane == lane) return &asked;
  return nullptr;
}

void Watchdog::ask_peers(const WatchedLane& lane) {
  chain_.clear();
  ask({lane.id, lane.done + 1, lane.ranks, lane.oldest, -1, {}});
}

// Finds a rank that is behind because it waits in another group, and asks that group. Returns false
// if every such group has been asked.
bool Watchdog::ask_further() {
  for (const Asked& asked : chain_)
    for (const auto& [r, m] : asked.answers) {
      if (m.started >= asked.stuck || m.wait.lane == 0 || m.wait.count == 0) continue;
      if (find_asked(m.wait.lane) != nullptr) continue;
      Asked next{m.wait.lane, m.wait.done + 1, {}, m.wait.call, r, {}};
      for (int i = 0; i < m.wait.count; ++i) next.ranks.push_back(m.wait.first + i * m.wait.stride);
      ask(std::move(next));
      return true;
    }
  return false;
}

bool Watchdog::answers_complete() {
  poll();
  last_poll_ns_ = monotonic_ns();
  const Asked& last = chain_.back();
  const bool own = std::find(last.ranks.begin(), last.ranks.end(), rank_) != last.ranks.end();
  const bool all = last.answers.size() + static_cast<std::size_t>(own) >= last.ranks.size();
  if (!all && last_poll_ns_ - asked_ns_ <= grace_ns_) return false;
  return !ask_further();
}

std::string Watchdog::process(int rank) const {
  const Process& p = processes_[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, p.host, p.pid);
}

// Who holds up one of the groups that were asked.
struct Watchdog::Blame {
  std::vector<std::string> silent, behind;
  bool explained = false;  // a rank that is behind waits in a group in which somebody is to blame
};

// `explained` has the groups in which somebody is to blame, as far as they are known.
Watchdog::Blame Watchdog::blame(std::size_t index, const std::vector<bool>& explained) const {
  const Asked& asked = chain_[index];
  const std::string waiting = asked.waiting < 0 ? ""
                                                : fmt::format(" (rank {} waits for it in {})",
                                                              asked.waiting, describe(asked.call));
  Blame blame;
  for (const int r : asked.ranks) {
    if (r == rank_) continue;
    const auto it = asked.answers.find(r);
    if (it == asked.answers.end()) {
      blame.silent.push_back(process(r) + " does not answer" + waiting);
      continue;
    }
    const WatchdogMessage& m = it->second;
    if (m.started >= asked.stuck) continue;
    const auto waits_in = std::find_if(chain_.begin(), chain_.end(), [&](const Asked& other) {
      return other.lane == m.wait.lane;
    });
    if (waits_in != chain_.end() && explained[static_cast<std::size_t>(waits_in - chain_.begin())])
      blame.explained = true;
    else if (!m.known || m.started == 0)
      blame.behind.push_back(process(r) + " has not started any call" + waiting);
    else
      blame.behind.push_back(
          fmt::format("{} is {} call {}, {}{}", process(r), m.done == m.started ? "past" : "at",
                      m.done == m.started ? m.done : m.done + 1, describe(m.current), waiting));
  }
  return blame;
}

std::string Watchdog::timeout_message(const WatchedLane& lane) const {
  constexpr std::size_t most_named = 16;
  // The last group was asked because of ranks of groups before it.
  std::vector<Blame> blames(chain_.size());
  std::vector<bool> explained(chain_.size(), false);
  for (std::size_t i = chain_.size(); i-- > 0;) {
    blames[i] = blame(i, explained);
    explained[i] = blames[i].explained || !blames[i].silent.empty() || !blames[i].behind.empty();
  }
  std::vector<std::string> silent, behind;
  for (const Blame& b : blames) {
    const auto add = [](std::vector<std::string>& all, const std::vector<std::string>& more) {
      for (const std::string& text : more) {
        const auto same = [&](const std::string& t) {  // a rank may be silent in several groups
          return t.substr(0, t.find(')')) == text.substr(0, text.find(')'));
        };
        if (std::none_of(all.begin(), all.end(), same)) all.push_back(text);
      }
    };
    add(silent, b.silent);
    add(behind, b.behind);
  }
  std::string who;
  for (const auto& [list, more] : {std::pair{&silent, "do not answer"}, {&behind, "are behind"}}) {
    for (std::size_t i = 0; i < std::min(list->size(), most_named); ++i) who += (*list)[i] + "; ";
    if (list->size() > most_named)
      who += fmt::format("{} more {}; ", list->size() - most_named, more);
  }
  if (who.empty()) who = "all other ranks answer and have started it, so the transport is stuck; ";
  who.resize(who.size() - 2);
  return fmt::format(
      "{} (call {}) not finished after {:g} s: {}: check that process and its node, "
      "or raise comm.timeout_s",
      describe(lane.oldest), lane.done + 1, static_cast<double>(timeout_ns_) / 1e9, who);
}

}  // namespace shardmark
