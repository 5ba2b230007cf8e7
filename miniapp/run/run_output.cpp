// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>

#include <nlohmann/json.hpp>

#include <core/error.hpp>
#include <io/files/output_folder.hpp>
#include <miniapp/report/chakra_trace.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/report_json.hpp>
#include <miniapp/report/report_text.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/report/trace_file.hpp>
#include <miniapp/run/run_output.hpp>

namespace shardmark {

RunOutput::RunOutput(const RunArguments& arguments, const RunPlan& run, const World& world)
    : run_(run), world_(world), prints_(world.peers.rank() == 0 && !arguments.quiet) {
  world_.peers.agree([&] {
    if (world_.peers.rank() == 0) folder_.emplace(arguments.out, run_.loaded.output.trace);
  });
}

void RunOutput::announce(const std::string& notice) const {
  if (prints_)
    print_out(heading(run_.loaded.deck, run_.program, run_.fit, notice,
                      describe_start(run_.start_class)) +
              "\n");
}

// One file per rank, which rank 0 writes, since the others may not see the folder.
void RunOutput::write_chakra(const std::vector<StepTrace>& steps) const {
  Peers& peers = world_.peers;
  const std::string& name = run_.loaded.output.trace;
  const std::string mine = steps.empty()
                               ? chakra_trace(run_.program, run_.loaded.deck.name)
                               : chakra_trace(run_.program, run_.loaded.deck.name, steps.front());
  const std::string groups = chakra_groups(run_.program).dump();
  auto groups_of_ranks = nlohmann::ordered_json::object();
  for (int rank = 0; rank < peers.size(); ++rank) {
    const std::string part = peers.broadcast(mine, rank);
    groups_of_ranks.update(nlohmann::ordered_json::parse(peers.broadcast(groups, rank)));
    peers.agree([&] {
      if (folder_) folder_->replace(rank_file(name, rank), part);
    });
  }
  peers.agree([&] {
    if (folder_ && !groups_of_ranks.empty())
      folder_->replace(chakra_groups_file(name), groups_of_ranks.dump() + "\n");
  });
}

// One rank after another, so that no rank holds more than one other rank's part.
void RunOutput::write_trace(const std::vector<StepTrace>& steps,
                            std::int64_t clock_offset_ns) const {
  if (run_.loaded.output.trace.empty()) return;
  if (is_file_of_each_rank(run_.loaded.output.trace)) return write_chakra(steps);
  Peers& peers = world_.peers;
  const std::int64_t first_ns =
      steps.empty() ? INT64_MAX : steps[0].events.front().begin_ns + clock_offset_ns;
  const TraceClock clock{clock_offset_ns, std::ranges::min(peers.gather(first_ns))};
  const std::string mine = trace_events(run_.program, steps, clock, world_.node.host);
  int rank = -1;
  const auto next = [&]() -> std::string {
    if (++rank > peers.size()) return {};
    if (rank == peers.size()) return trace_end;
    const std::string part = peers.broadcast(mine, rank);
    return (rank == 0 ? trace_begin(run_.program, run_.loaded.deck.name) : ",\n") + part;
  };
  const auto pass_on = [&] {  // the other ranks wait for each part, even if it cannot be written
    while (!next().empty()) continue;
  };
  peers.agree([&] {
    if (!folder_) return pass_on();
    try {
      folder_->replace_in_pieces(run_.loaded.output.trace, next);
    } catch (const IoError&) {
      pass_on();
      throw;
    }
  });
}

void RunOutput::report(const Result& result, const std::vector<StepTrace>& steps,
                       std::int64_t clock_offset_ns) const {
  const Deck& deck = run_.loaded.deck;
  Peers& peers = world_.peers;
  const GuardedPhase phase(world_.guard, "writing the report", deck.comm.timeout_s);
  peers.agree([&] {  // before the files: if they cannot be written, the figures are not lost
    if (prints_) print_out(report_text(deck, run_.program, result, folder_->path()));
  });
  peers.agree([&] {
    if (!folder_) return;
    folder_->replace(losses_file, losses_csv(result.rows));
    folder_->replace(page_file, report_html(deck, run_.program, result));
    folder_->replace(report_file, report_json(deck, run_.program, result));
  });
  write_trace(steps, clock_offset_ns);
}

}  // namespace shardmark
