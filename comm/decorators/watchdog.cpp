// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include <fmt/core.h>
#include <unistd.h>

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
  return call.name[0] == '\0' ? std::string(to_string(call.op))
                              : fmt::format("{} {}", to_string(call.op), call.name);
}

}  // namespace

Watchdog::Watchdog(MPI_Comm world, double timeout_s, Idle idle)
    : comm_(OwnedComm::duplicate(world)), idle_(idle) {
  set_timeout(timeout_s);
  if (!(timeout_s > 0))
    throw CommError(fmt::format("comm.timeout_s = {}: must be above 0", timeout_s));
  SHARDMARK_MPI(MPI_Comm_rank(comm_.get(), &rank_));
  SHARDMARK_MPI(MPI_Comm_size(comm_.get(), &size_));
  lowest_asker_ = size_;
  char host[MPI_MAX_PROCESSOR_NAME];
  int length = 0;
  SHARDMARK_MPI(MPI_Get_processor_name(host, &length));
  Process own{};
  std::memcpy(own.host, host, std::min<std::size_t>(length, sizeof own.host - 1));
  own.pid = getpid();
  processes_.resize(static_cast<std::size_t>(size_));
  SHARDMARK_MPI(MPI_Allgather(&own, sizeof own, MPI_BYTE, processes_.data(), sizeof own, MPI_BYTE,
                              comm_.get()));
  receive();
}

void Watchdog::set_timeout(double timeout_s) {
  timeout_ns_ = static_cast<std::int64_t>(timeout_s * 1e9);
  grace_ns_ = std::clamp(timeout_ns_, shortest_grace_ns, longest_grace_ns);
}

Watchdog::~Watchdog() {
  report_mpi(MPI_Cancel(&incoming_request_), "MPI_Cancel");
  report_mpi(MPI_Wait(&incoming_request_, MPI_STATUS_IGNORE), "MPI_Wait");
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
  if (!complete) new std::list<Outgoing>(std::move(outgoing_));
}

void Watchdog::receive() {
  SHARDMARK_MPI(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, message_tag,
                          comm_.get(), &incoming_request_));
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
  SHARDMARK_MPI(MPI_Isend(&out.message, sizeof out.message, MPI_BYTE, to, message_tag, comm_.get(),
                          &out.request));
}

void Watchdog::handle(const WatchdogMessage& message, int source) {
  if (message.kind == WatchdogMessage::Kind::ask) {
    lowest_asker_ = std::min(lowest_asker_, source);
    send(WatchdogMessage::Kind::answer, message.lane, source);
  }
  // A question carries the same state as an answer.
  if (message.lane == asked_lane_) answers_[source] = message;
}

void Watchdog::poll() {
  for (;;) {
    int complete = 0;
    MPI_Status status;
    SHARDMARK_MPI(MPI_Test(&incoming_request_, &complete, &status));
    if (!complete) break;
    const WatchdogMessage message = incoming_;
    receive();
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

void Watchdog::ask_peers(const WatchedLane& lane) {
  answers_.clear();
  asked_lane_ = lane.id;
  asked_ns_ = monotonic_ns();
  for (const int r : lane.ranks)
    if (r != rank_) send(WatchdogMessage::Kind::ask, lane.id, r);
}

bool Watchdog::answers_complete(const WatchedLane& lane) {
  poll();
  last_poll_ns_ = monotonic_ns();
  return answers_.size() + 1 == lane.ranks.size() || last_poll_ns_ - asked_ns_ > grace_ns_;
}

std::string Watchdog::process(int rank) const {
  const Process& p = processes_[static_cast<std::size_t>(rank)];
  return fmt::format("rank {} (host {}, pid {})", rank, p.host, p.pid);
}

std::string Watchdog::timeout_message(const WatchedLane& lane) const {
  constexpr int most_named = 16;
  const std::uint64_t stuck = lane.done + 1;
  int silent = 0, behind = 0;
  std::string silent_text, behind_text;
  for (const int r : lane.ranks) {
    if (r == rank_) continue;
    const auto it = answers_.find(r);
    if (it == answers_.end()) {
      if (++silent <= most_named) silent_text += process(r) + " does not answer; ";
      continue;
    }
    const WatchdogMessage& m = it->second;
    if (m.started >= stuck || ++behind > most_named) continue;
    if (!m.known || m.started == 0)
      behind_text += process(r) + " has not started any call; ";
    else
      behind_text +=
          fmt::format("{} is {} call {}, {}; ", process(r), m.done == m.started ? "past" : "at",
                      m.done == m.started ? m.done : m.done + 1, describe(m.current));
  }
  if (silent > most_named)
    silent_text += fmt::format("{} more do not answer; ", silent - most_named);
  if (behind > most_named) behind_text += fmt::format("{} more are behind; ", behind - most_named);
  std::string who = silent_text + behind_text;
  if (who.empty()) who = "all other ranks answer and have started it, so the transport is stuck; ";
  who.resize(who.size() - 2);
  return fmt::format(
      "{} (call {}) not finished after {:g} s: {}: check that process and its node, "
      "or raise comm.timeout_s",
      describe(lane.oldest), stuck, static_cast<double>(timeout_ns_) / 1e9, who);
}

}  // namespace shardmark
