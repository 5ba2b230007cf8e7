// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstring>
#include <sstream>
#include <thread>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <core/clock.hpp>
#include <core/error.hpp>
#include <core/text.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/files/durable_file.hpp>
#include <io/files/hash.hpp>
#include <io/json/json_source.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/ranks/launcher.hpp>

namespace shardmark {
namespace {

constexpr const char* newest_good = "newest-good";

std::vector<StoredParam> stored_params(const ModelShape& model) {
  std::vector<StoredParam> params;
  for (const Param& p : model.params)
    if (p.updated()) params.push_back({p.name, p.elems, p.shape});
  return params;
}

// Says what the frozen parameters are, and what gives them their values.
std::string frozen_params(const ModelShape& model, std::uint64_t seed) {
  std::string text;
  for (const Param& p : model.params)
    if (!p.updated())
      text += fmt::format("{} {} {} {}\n", p.name, fmt::join(p.shape, " "),
                          static_cast<int>(p.init), p.std);
  return text.empty() ? text : hash_hex(fmt::format("{}{}", text, seed));
}

}  // namespace

Checkpoints::Checkpoints(const LoadedDeck& loaded, const Program& program, MPI_Comm world,
                         Peers& peers)
    : loaded_(loaded),
      spec_(loaded.deck.checkpoint),
      program_(program),
      world_(world),
      peers_(peers) {
  if (spec_.dir.empty()) return;
  if (spec_.writes()) open_for_writing();
  if (spec_.resume != "none") find();
}

void Checkpoints::open_for_writing() {
  peers_.agree([&] {
    if (peers_.rank() == 0) folder_.emplace(spec_.dir);
  });
  require_shared_folder();
  owned_ = owned_elements(program_);
  group_.emplace(world_, peers_, spec_.ranks_per_file, among_stored(program_.model, owned_));
  next_.world = program_.world, next_.stage = program_.stage,
  next_.schedule = to_string(program_.schedule);
  next_.model_dtype = program_.precision.model;
  next_.optimizer = program_.optimizer;
  next_.params = stored_params(whole_model(program_.model));
  next_.frozen = frozen_params(program_.model, loaded_.deck.run.seed);
  if (folder_) next_.views = all_views(program_.model);
  next_.deck = loaded_.used_json;
  next_.versions = library_versions();
}

// Otherwise the first checkpoint would fail, after much training. All ranks must see what rank 0
// has written into the folder; a network file system may show it a moment later.
void Checkpoints::require_shared_folder() {
  constexpr double longest_s = 3;
  constexpr std::chrono::milliseconds pause{50};
  const std::string remedy = "give a checkpoint.dir on a file system that all hosts share";
  const std::string holder =
      peers_.broadcast(peers_.rank() == 0 ? lock_holder(spec_.dir, remedy) : "", 0);
  peers_.agree([&] {
    const std::int64_t start_ns = monotonic_ns();
    while (lock_holder(spec_.dir, remedy) != holder) {
      if (seconds_since(start_ns) > longest_s)
        throw IoError(fmt::format(
            "{}: rank {} (host {}) does not see the file .lock that rank 0 has written there ({}): "
            "{}",
            spec_.dir, peers_.rank(), host_of_process(), holder, remedy));
      std::this_thread::sleep_for(pause);
    }
  });
}

void Checkpoints::find() {
  if (spec_.resume == newest_good) return find_newest_good();
  std::string name;
  peers_.agree([&] {
    if (peers_.rank() == 0)
      name = spec_.resume != "latest" ? spec_.resume : latest_checkpoint(spec_.dir).value_or("");
  });
  name = peers_.gather(name)[0];  // the folder may change while ranks read it
  if (name.empty()) {
    notice_ = fmt::format("no checkpoint in {} yet: a fresh start", spec_.dir);
    return;
  }
  peers_.agree([&] { from_ = read_manifest(spec_.dir + "/" + name); });
  go_on_from(name);
}

// Each rank verifies its share of the parts: by the world's size, not by that which wrote them.
void Checkpoints::find_newest_good() {
  std::string list;  // names have no line ends
  peers_.agree([&] {
    if (peers_.rank() == 0)
      for (const std::string& name : checkpoints_to_try(spec_.dir)) list += name + "\n";
  });
  std::istringstream names(peers_.gather(list)[0]);
  for (std::string name; std::getline(names, name);) {
    const std::string folder = spec_.dir + "/" + name;
    try {
      peers_.agree([&] {
        from_ = read_manifest(folder);
        const auto step = static_cast<std::size_t>(peers_.size());
        for (auto p = static_cast<std::size_t>(peers_.rank()); p < from_->parts.size(); p += step)
          for (State s : from_->stored()) verify_part(folder, *from_, from_->parts[p], s);
      });
      return go_on_from(name);
    } catch (const AgreedError& e) {
      if (e.status() != ExitStatus::output) throw;
      from_.reset();
      damaged_.push_back(name);
      for (const std::string& reason : peers_.gather(std::string(e.what())))
        if (!reason.empty()) notice_ += fmt::format("{} is not good ({}); ", name, reason);
    }
  }
  peers_.agree([&] {
    if (!damaged_.empty())
      throw IoError(notice_ +
                    "no other checkpoint is there: repair one, or give another checkpoint.dir");
  });
  notice_ = fmt::format("no checkpoint in {} yet: a fresh start", spec_.dir);
}

void Checkpoints::go_on_from(const std::string& name) {
  figures_.resumed_from = name;
  peers_.agree([&] {
    require_same_model();
    require_same_optimizer();
  });
  figures_.first_step = from_->position.step;
  notice_ += fmt::format("goes on from {}/{} after step {}: written by {}, {}, ZeRO stage {}",
                         spec_.dir, name, from_->position.step, plural(from_->world, "rank"),
                         from_->schedule, from_->stage);
}

void Checkpoints::require_same_model() const {
  const auto mine = stored_params(whole_model(program_.model));
  const auto& theirs = from_->params;
  for (std::size_t i = 0; i < std::max(mine.size(), theirs.size()); ++i) {
    const auto tell = [&](const std::vector<StoredParam>& params) {
      return i < params.size()
                 ? fmt::format("{} of {} elements", brief(params[i].name), params[i].elems)
                 : std::string("none");
    };
    if (i < mine.size() && i < theirs.size() && mine[i] == theirs[i]) continue;
    throw IoError(
        fmt::format("{}/{}/{}: is of another model: parameter {} is {} there, {} in the deck: give "
                    "the deck that wrote it, or another checkpoint.resume",
                    spec_.dir, figures_.resumed_from, manifest_file, i, tell(theirs), tell(mine)));
  }
  if (from_->frozen != frozen_params(program_.model, loaded_.deck.run.seed))
    throw IoError(fmt::format(
        "{}/{}/{}: was trained beside frozen parameters of another model or another run.seed, "
        "which no checkpoint holds: give the deck that wrote it, or another checkpoint.resume",
        spec_.dir, figures_.resumed_from, manifest_file));
}

void Checkpoints::require_same_optimizer() const {
  if (share_states(from_->optimizer, program_.optimizer)) return;
  const auto states = [](Optimizer o) {
    std::string text;
    for (const State s : traits(o).moments)
      text += fmt::format("{}{}", text.empty() ? " with " : " and ", to_string(s));
    return fmt::format("{}{}", to_string(o), text);
  };
  throw IoError(fmt::format(
      "{}/{}: holds the states of {}, and the deck's optimizer is {}: give that optimizer in "
      "deepspeed.optimizer, or another checkpoint.resume",
      spec_.dir, figures_.resumed_from, states(from_->optimizer), states(program_.optimizer)));
}

void Checkpoints::restore(const Executor& executor, StepRunner& runner) {
  if (spec_.async && spec_.every > 0)  // touches pages before the first write
    for (const StateSource& s : staging_slots(program_, executor))
      std::memset(const_cast<std::byte*>(s.slices[0].data), 0,
                  static_cast<std::size_t>(s.slices[0].elems * dtype_bytes(s.dtype)));
  if (!from_) return;
  const std::int64_t start_ns = monotonic_ns();
  ReadTotals totals;
  peers_.agree([&] {
    totals = read_states(spec_.dir + "/" + figures_.resumed_from, *from_,
                         wanted_states(program_, executor), view_of(program_.model));
  });
  figures_.read_s = peers_.max(seconds_since(start_ns));
  for (std::int64_t bytes : peers_.gather(totals.bytes)) figures_.read_bytes += bytes;
  for (std::int64_t files : peers_.gather(totals.files)) figures_.files_opened += files;
  runner.resume(from_->position, from_->model_dtype == program_.precision.model);
}

}  // namespace shardmark
