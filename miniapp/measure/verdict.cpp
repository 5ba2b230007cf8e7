// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/core.h>

#include <core/text.hpp>
#include <miniapp/measure/verdict.hpp>

namespace shardmark {
namespace {

using Outcome = Check::State;

Check from_text(std::string name, const std::string& wrong, const std::string& right) {
  return {std::move(name), wrong.empty() ? Outcome::pass : Outcome::fail,
          wrong.empty() ? right : wrong};
}

Check finite(const Result& r, bool trains) {
  for (const LossRow& row : r.rows) {
    if (trains && !std::isfinite(row.loss))
      return {"finite", Outcome::fail, fmt::format("loss is {} at step {}", row.loss, row.step)};
    if (!row.skipped && !std::isfinite(row.grad_norm))
      return {"finite", Outcome::fail,
              fmt::format("gradient norm is {} at step {}", row.grad_norm, row.step)};
  }
  return {"finite", Outcome::pass,
          trains ? "every loss and gradient norm is finite" : "every gradient norm is finite"};
}

double mean_loss(const std::vector<LossRow>& rows, std::size_t first, std::size_t count) {
  double sum = 0;
  for (std::size_t i = first; i < first + count; ++i) sum += rows[i].loss;
  return sum / static_cast<double>(count);
}

Check loss_drop(const Deck& deck, const Result& r, bool trains) {
  constexpr std::size_t enough = 20;
  const bool structured =
      deck.data.source == DataSource::file || deck.data.source == DataSource::markov;
  const bool resumed = !r.checkpoints.resumed_from.empty();
  const bool stopped = !r.stopped.empty();
  if (!trains || !structured || resumed || stopped || r.rows.size() < enough)
    return {"loss_drop", Outcome::not_applicable,
            !trains       ? "nothing is trained"
            : !structured ? "the data has no structure to learn"
            : resumed     ? "the first losses belong to another run"
            : stopped     ? "the run was stopped before its last step"
                          : fmt::format("fewer than {} steps", enough)};
  const std::size_t fifth = r.rows.size() / 5;
  // A run that is longer than the one that the deck's drop was found in has learnt most of it
  // within its own first fifth.
  const auto expected = static_cast<std::size_t>(deck.expect.steps) / 5;
  const std::size_t first = expected > 0 ? std::min(fifth, expected) : fifth;
  const double before = mean_loss(r.rows, 0, first);
  const double after = mean_loss(r.rows, r.rows.size() - fifth, fifth);
  const bool ok = after < before - deck.expect.loss_drop;
  return {
      "loss_drop", ok ? Outcome::pass : Outcome::fail,
      fmt::format("the mean loss {} from {:.4f} ({}) to {:.4f} (last fifth); the deck requires a "
                  "drop of more than {}",
                  after < before ? "fell" : "went", before,
                  first == fifth ? "first fifth" : fmt::format("first {} steps", first), after,
                  deck.expect.loss_drop)};
}

Check expected_loss(const Deck& deck, const Program& p, const Result& r, bool trains) {
  const ExpectSpec& expect = deck.expect;
  if (!expect.loss || !trains || r.rows.empty())
    return {"expect.loss", Outcome::not_applicable, "the deck gives none"};
  if (!r.stopped.empty())
    return {"expect.loss", Outcome::not_applicable, "the run was stopped before its last step"};
  const std::int64_t steps = deck.run.warmup + deck.run.steps;
  if (expect.train_batch_size != 0 && expect.train_batch_size != p.batch.global)
    return {"expect.loss", Outcome::not_applicable,
            fmt::format("given for {} samples per step; this run has {}", expect.train_batch_size,
                        p.batch.global)};
  if (expect.steps != 0 && expect.steps != steps)
    return {"expect.loss", Outcome::not_applicable,
            fmt::format("given for {} steps; this run has {}", expect.steps, steps)};
  const double have = r.rows.back().loss;
  const bool ok = std::abs(have - *deck.expect.loss) <= deck.expect.tolerance;
  return {"expect.loss", ok ? Outcome::pass : Outcome::fail,
          fmt::format("last loss {:.6g}, expected {:.6g} within {:.3g}", have, *deck.expect.loss,
                      deck.expect.tolerance)};
}

bool is_skipped(const LossRow& row) {
  return row.skipped;
}

// A step whose gradients overflow updates nothing, so a run in which all do trains nothing.
Check updates(const Result& r, bool trains) {
  const auto skipped = std::ranges::count_if(r.rows, is_skipped);
  const auto steps = static_cast<std::ptrdiff_t>(r.rows.size());
  const bool none = trains && steps > 0 && skipped == steps && r.stopped.empty();
  return {"updates", none ? Outcome::fail : Outcome::pass,
          fmt::format("{} of {} steps were skipped because gradients overflowed{}", skipped, steps,
                      none ? ": choose a smaller loss_scale" : "")};
}

Check values(const Result& r, const Observed& o) {
  if (!o.values_mismatch.empty()) return {"values", Outcome::fail, o.values_mismatch};
  if (!r.proof || r.proof->proved_steps == 0)
    return {"values", Outcome::not_applicable,
            r.proof ? "there are no timed steps" : "one rank communicates with no other"};
  return {"values", Outcome::pass, describe(*r.proof)};
}

Check replay_check(const ReplayResult& replay) {
  if (!replay.unused.empty()) return {"replay", Outcome::not_applicable, replay.unused};
  return from_text("replay", replay.wrong, describe(replay));
}

Check disk_check(const Result& r, const Observed& o) {
  if (o.disk_mismatch.empty() && (!r.disk->direct || !r.disk->kernel))
    return {"disk", Outcome::not_applicable,
            r.disk->direct ? "the kernel does not count what it transfers"
                           : "files go through the page cache: the file system of nvme_path allows "
                             "no direct transfers"};
  return from_text("disk", o.disk_mismatch,
                   "the kernel transferred the predicted bytes, on every rank");
}

}  // namespace

bool Result::checks_pass() const {
  return std::ranges::none_of(checks, [](const Check& c) { return c.state == Outcome::fail; });
}

std::vector<std::string> Result::list_of_reasons() const {
  std::vector<std::string> reasons;
  if (!stopped.empty()) reasons.push_back(stopped);
  for (const Check& c : checks)
    if (c.state == Outcome::fail) reasons.push_back(c.name + ": " + c.detail);
  return reasons;
}

std::string Result::invalid_reasons() const {
  return join(list_of_reasons(), "; ");
}

std::string describe_resident(const Result& r) {
  const auto part = [](std::int64_t bytes, const char* what) {
    return bytes > 0 ? fmt::format(", {} of it {}", human_bytes(bytes), what) : std::string{};
  };
  return fmt::format("{} at start, {} at most{}{}; {} beyond the ledger's peak (allowance {})",
                     human_bytes(r.rss_start), human_bytes(r.rss_peak),
                     part(r.rss_libraries, "the device's libraries"),
                     part(r.replay_copy, "the states for the replay"), human_bytes(r.rss_excess),
                     human_bytes(r.allowance));
}

std::string describe_sample(const Result& r) {
  if (r.sampled_steps == r.timed_steps) return {};
  return fmt::format("times of collectives are those of {} of the {} timed steps", r.sampled_steps,
                     r.timed_steps);
}

std::string describe(const DiskResult& disk) {
  std::string text = disk.direct ? "Transfers bypass the page cache"
                                 : "Transfers go through the page cache and may not reach the disk";
  if (disk.kernel)
    text += fmt::format("; the kernel read {} bytes and wrote {} in the whole run",
                        disk.kernel->read, disk.kernel->written);
  return text + ".";
}

std::vector<PredictedTime> predicted_times(const Result& r) {
  if (!r.prediction) return {};
  const PredictedPoint& p = r.prediction->point;
  const PhaseMedians& t = r.median_times;
  return {{"step", p.step_s, t.step},
          {"forward", p.priced.phase_s[Phase::forward], t.forward},
          {"backward", p.priced.phase_s[Phase::backward], t.backward},
          {"optimizer", p.priced.phase_s[Phase::step], t.optimizer},
          {"copies", p.priced.copies_s, t.copies},
          {"exposed", p.priced.exposed_s, t.exposed}};
}

std::string cores_of_prediction(const Result& r) {
  if (!r.prediction || r.core_to_core_s <= 0) return {};
  const double ns = r.core_to_core_s * 1e9, assumed_ns = r.prediction->core_to_core_s * 1e9;
  if (assumed_ns <= 0)
    return fmt::format("the cores of neighbouring ranks were {:.0f} ns apart", ns);
  return fmt::format(
      "the cores of neighbouring ranks were {:.0f} ns apart, and the prediction is that of {:.0f} "
      "ns",
      ns, assumed_ns);
}

MeasuredUse measured_use(const Result& r) {
  if (!r.prediction || r.step_p50_s <= 0) return {};
  const PredictedPoint& p = r.prediction->point;
  const auto corrected = [&](const std::optional<double>& part) {
    return part ? std::optional(*part * p.step_s / r.step_p50_s) : std::nullopt;
  };
  return {corrected(p.mfu), corrected(p.hfu)};
}

void judge(const Deck& deck, const Program& p, const Observed& o, Result& r) {
  const bool trains = deck.run.compute == Compute::train;
  r.checks.push_back(finite(r, trains));
  r.checks.push_back(loss_drop(deck, r, trains));
  r.checks.push_back(expected_loss(deck, p, r, trains));
  r.checks.push_back(updates(r, trains));
  r.checks.push_back(
      from_text("memory", o.memory_mismatch,
                deck.run.memory_mode == MemoryMode::pooled
                    ? "the arena of each tier as predicted, to the byte, on every rank"
                    : "peaks by tier and category as predicted, to the byte, on every rank"));
  r.checks.push_back(from_text("calls", o.calls_mismatch,
                               "calls and elements by collective as predicted, on every rank"));
  r.checks.push_back(values(r, o));
  r.checks.push_back(replay_check(r.replay));
  if (r.copies() || !o.copies_mismatch.empty())
    r.checks.push_back(
        from_text("copies", o.copies_mismatch,
                  "bytes between tiers as predicted, in each direction, on every rank"));
  if (r.disk || !o.disk_mismatch.empty()) r.checks.push_back(disk_check(r, o));
  r.checks.push_back(from_text("system_memory", o.excess, "within the allowance on every rank"));
  r.checks.push_back(from_text("inputs", o.inputs,
                               "every rank ran the same program and libraries on the same data"));
  r.checks.push_back(from_text("clocks", o.clocks,
                               "the clocks of every rank agree on the timed span within 0.5 %"));
  r.checks.push_back(
      from_text("replicas", r.hashes.disagreement, "replicas and shards agree across ranks"));
  r.checks.push_back(from_text("self_check", o.self_check,
                               "exact integer data gives the parameters of stage 0, bit for bit"));
  if (o.reference) r.checks.push_back(*o.reference);

  // A run with a fault that no check found must not end VALID.
  const bool skipped =
      o.injected.starts_with("SHARDMARK_FAULT=nan") && std::ranges::any_of(r.rows, is_skipped);
  if (!o.injected.empty() && r.checks_pass())
    r.checks.push_back(
        {"fault", Outcome::fail,
         fmt::format("{}: {}", o.injected,
                     skipped
                         ? "it was taken for an overflow of the gradients, so the step was skipped"
                         : "nothing in this run could show it (this stage, offload and rank "
                           "count have no such collective or copy)")});
}

}  // namespace shardmark
