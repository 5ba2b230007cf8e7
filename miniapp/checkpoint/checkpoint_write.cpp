// SPDX-License-Identifier: Apache-2.0
// How a checkpoint is written, at once or while training goes on, and the storage benchmark.
#include <fmt/core.h>

#include <core/memory/budget.hpp>
#include <core/text.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/files/regular_file.hpp>
#include <miniapp/checkpoint/checkpoint_states.hpp>
#include <miniapp/checkpoint/checkpoints.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/measure/figures_of_merit.hpp>

namespace shardmark {
namespace {

PartPlace place_in(const FileGroup& group, const CheckpointSpec& spec, const std::string& folder) {
  PartPlace place = group.place(folder);
  place.alignment_bytes = spec.alignment_bytes;
  place.hints = spec.hints;
  return place;
}

std::int64_t bytes_of(const Manifest& manifest) {
  std::int64_t bytes = 0;
  for (const CheckpointFile& f : manifest.files) bytes += f.bytes;
  return bytes;
}

}  // namespace

template<class Body>
void Checkpoints::or_abandon(Body body) {
  try {
    body();
  } catch (const AgreedError&) {
    if (folder_) folder_->abandon(name_);
    throw;
  }
}

std::string Checkpoints::begin(const StepRunner& runner) {
  next_.position = runner.position();
  next_.samples = (from_ ? from_->samples : 0) +
                  (next_.position.step - figures_.first_step) * program_.batch.global;
  name_ = checkpoint_name(next_.position.step);
  figures_.newest = spec_.dir + "/" + name_;
  std::string path;
  peers_.agree([&] {
    if (peers_.rank() == 0) path = folder_->begin(name_);
  });
  return peers_.gather(path)[0];
}

// In `views`, if there are any.
int Checkpoints::view_of_rank(int rank) const {
  const Mesh mesh(program_.world, rank, loaded_.deck.zero.parallel);
  return view_index({mesh.tensor_ranks(), mesh.tensor_rank()},
                    {mesh.expert_ranks(), mesh.expert_rank()});
}

void Checkpoints::record_parts(const std::vector<WrittenPart>& notes) {
  next_.files = group_->files();
  next_.parts = group_->parts();
  for (std::size_t r = 0; r < notes.size(); ++r) {
    next_.parts[r].digest = notes[r].digest;
    next_.parts[r].view = view_of_rank(static_cast<int>(r));
    CheckpointFile& file = next_.files[next_.parts[r].file];
    file.first_byte = notes[r].first_byte;
    file.bytes = notes[r].file_bytes;
  }
}

double Checkpoints::write_now(const Executor& executor, const std::string& folder) {
  const std::int64_t start_ns = monotonic_ns();
  const PartPlace place = place_in(*group_, spec_, folder);
  WrittenPart note;
  peers_.agree([&] {
    note = write_part(place, state_sources(program_, executor, owned_));
    own_write_s_ += seconds_since(start_ns);
  });
  record_parts(peers_.gather(note));
  peers_.agree([&] {
    if (folder_) folder_->publish(name_, write_manifest(next_));
  });
  return peers_.max(seconds_since(start_ns));
}

void Checkpoints::write_beside(const Executor& executor, const std::string& folder) {
  const std::vector<StateSource> staging = staging_slots(program_, executor);
  copy_aside(state_sources(program_, executor, owned_), staging);
  const PartPlace place = place_in(*group_, spec_, folder);
  const auto write = [place, staging] { return write_part(place, staging); };
  BackgroundWrite::Publish publish;
  if (folder_)
    publish = [this](const std::vector<WrittenPart>& notes) {
      record_parts(notes);
      folder_->publish(name_, write_manifest(next_));
      folder_->clean_up(name_, spec_.keep, damaged_);
    };
  beside_.emplace(folder, peers_.rank(), peers_.size(), loaded_.deck.comm.timeout_s, write,
                  publish);
}

void Checkpoints::write(const Executor& executor, const StepRunner& runner) {
  finish();
  if (!group_) open_for_writing();                    // a run that writes none otherwise is stopped
  const bool async = spec_.async && spec_.every > 0;  // else the plan has no memory to copy to
  const std::int64_t start_ns = monotonic_ns();
  or_abandon([&] {
    const std::string folder = begin(runner);
    if (async) return write_beside(executor, folder);
    figures_.write_s += write_now(executor, folder);
    clean_up();
  });
  ++figures_.written;
  figures_.blocked_s += peers_.max(seconds_since(start_ns));
  if (!async) figures_.written_bytes += bytes_of(next_);
}

void Checkpoints::clean_up() {
  peers_.agree([&] {
    if (folder_) folder_->clean_up(name_, spec_.keep, damaged_);
  });
}

void Checkpoints::finish() {
  if (!beside_) return;
  const std::int64_t start_ns = monotonic_ns();
  double seconds = 0;
  or_abandon([&] {
    // Rank 0 comes last: it waits for the files of the others, whose errors say why one is missing.
    try {
      peers_.agree([&] {
        if (peers_.rank() != 0) seconds = beside_->finish();
      });
    } catch (const AgreedError&) {
      beside_->give_up();
      beside_.reset();
      throw;
    }
    peers_.agree([&] {
      if (peers_.rank() == 0) seconds = beside_->finish();
    });
  });
  beside_.reset();
  figures_.write_s += peers_.max(seconds);
  figures_.written_bytes += bytes_of(next_);  // on rank 0, which reports
  figures_.blocked_s += peers_.max(seconds_since(start_ns));
}

// Each rank reads the shard of the next rank, so that a node does not read what it has just
// written.
double Checkpoints::read_of_next_rank(const std::string& folder) {
  const CheckpointPart& part = next_.parts[(peers_.rank() + 1) % peers_.size()];
  bool dropped = true;
  for (const CheckpointFile& f : next_.files) dropped &= forget_cached(folder + "/" + f.name);
  peers_.barrier();  // all nodes have dropped all files
  dropped &= !is_cached(folder + "/" + next_.files[part.file].name);
  peers_.barrier();
  const std::int64_t start_ns = monotonic_ns();
  peers_.agree([&] {
    for (State s : next_.stored()) verify_part(folder, next_, part, s);
    own_read_s_ += seconds_since(start_ns);
  });
  for (const int cold : peers_.gather(dropped ? 1 : 0)) figures_.cached |= cold == 0;
  return peers_.max(seconds_since(start_ns));
}

void Checkpoints::measure(const Executor& executor, const StepRunner& runner,
                          const std::function<void(const std::string&)>& say) {
  finish();
  own_write_s_ = 0;
  const auto said = [&](const char* what, const std::vector<double>& seconds) {
    const std::int64_t bytes = next_.state_bytes();
    say(fmt::format("{} {}/{}  {} in {:.2f} s, {:.2f} GiB/s", what, seconds.size(), spec_.benchmark,
                    human_bytes(bytes), seconds.back(), gib_per_s(bytes, seconds.back())));
  };
  for (std::int64_t i = 0; i < spec_.benchmark; ++i) {
    or_abandon([&] {
      const std::string folder = begin(runner);
      peers_.barrier();
      figures_.timed_write_s.push_back(write_now(executor, folder));
      clean_up();
    });
    said("write", figures_.timed_write_s);
  }
  for (std::int64_t i = 0; i < spec_.benchmark; ++i) {
    figures_.timed_read_s.push_back(read_of_next_rank(spec_.dir + "/" + name_));
    said("read", figures_.timed_read_s);
  }
  if (spec_.benchmark == 0) return;
  figures_.timed_bytes = next_.state_bytes();
  figures_.rank_write_s = peers_.gather(own_write_s_);
  figures_.rank_read_s = peers_.gather(own_read_s_);
  figures_.file_system = file_system_of(spec_.dir);
  figures_.node_memory_bytes =
      static_cast<std::int64_t>(peers_.max(static_cast<double>(node_memory_bytes())));
}

}  // namespace shardmark
