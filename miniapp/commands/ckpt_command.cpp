// SPDX-License-Identifier: Apache-2.0
// `shardmark ckpt`: prints what a checkpoint contains, verifies it, and writes its parameters as
// one file. It works without MPI: one process reads what any number of ranks wrote.
#include <filesystem>
#include <iterator>
#include <vector>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/checkpoint/consolidate.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/files/durable_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/progress.hpp>

namespace shardmark {
namespace {

// `dir`, or the latest checkpoint in it if it is a folder of checkpoints.
std::string checkpoint_in(std::string dir) {
  while (dir.size() > 1 && dir.back() == '/') dir.pop_back();
  std::error_code unknown;  // then reading it says why
  if (std::filesystem::exists(dir + "/" + manifest_file, unknown) || unknown) return dir;
  if (const auto latest = latest_checkpoint(dir)) return dir + "/" + *latest;
  throw IoError(
      fmt::format("{}: contains no checkpoint: give a folder with a {}, or a folder of "
                  "such folders",
                  dir, manifest_file));
}

// What the ranks that wrote it divided besides states; empty: nothing, or a deck that this version
// refuses. The data of the run need not be here.
std::string divided_by(const Manifest& m) {
  std::string text;
  try {
    const LoadedDeck used = read_deck(m.deck, {R"(data={"source": "uniform"})"}, DeckUse::plan);
    for (const MeshAxis& axis : used.deck.zero.parallel.axes())
      if (axis.ranks > 1)
        text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", axis.name(), axis.ranks);
  } catch (const DeckError&) {
  }
  return text;
}

std::string describe(const std::string& folder, const Manifest& m) {
  std::string text;
  auto out = std::back_inserter(text);
  fmt::format_to(out, "{}\n", printable(folder));
  fmt::format_to(out, "  position   after step {} ({} updates, {} samples), loss scale {}\n",
                 m.position.step, m.position.updates, m.samples, m.position.loss_scale.scale);
  fmt::format_to(out, "  written by {}, schedule {}, ZeRO stage {}, ShardMark {}\n",
                 plural(m.world, "rank"), printable(m.schedule), m.stage,
                 m.versions.contains("shardmark") ? printable(m.versions.at("shardmark")) : "?");
  if (const std::string axes = divided_by(m); !axes.empty())
    fmt::format_to(out, "  divided by {}; a run with other degrees reads it, too\n", axes);
  fmt::format_to(out, "  model      {} parameters in {} tensors\n", m.elems(), m.params.size());
  std::string states;
  for (State s : m.stored())
    states += fmt::format("{}{} ({})", states.empty() ? "" : ", ", to_string(s),
                          to_string(m.dtype_of(s)));
  fmt::format_to(out, "  states     {}: {}\n", states, human_bytes(m.state_bytes()));
  struct Contents {
    std::int64_t elems = 0, ranges = 0;
  };
  std::vector<Contents> of_file(m.files.size());
  for (const CheckpointPart& p : m.parts) {
    Contents& c = of_file[static_cast<std::size_t>(p.file)];
    c.elems += p.elems, c.ranges += std::ssize(p.map);
  }
  fmt::format_to(out, "  files\n");
  for (std::size_t f = 0; f < m.files.size(); ++f)
    fmt::format_to(out, "    {:<16} {:>12}  {} elements in {} ranges\n", printable(m.files[f].name),
                   human_bytes(m.files[f].bytes), of_file[f].elems, of_file[f].ranges);
  return text;
}

ExitStatus verify(const std::string& folder, const Manifest& m) {
  WorkProgress progress("verify");
  std::int64_t done = 0, wrong = 0;
  for (const CheckpointPart& part : m.parts)
    for (State s : m.stored()) {
      try {
        verify_part(folder, m, part, s);
      } catch (const IoError& e) {
        ++wrong;
        print_error(e.what());
      }
      done += part.elems * dtype_bytes(m.dtype_of(s));
      progress(done, m.state_bytes());
    }
  if (wrong > 0) {
    print_out(fmt::format("{}: {} datasets are damaged\n", printable(folder), wrong));
    return ExitStatus::output;
  }
  print_out(
      fmt::format("{}: complete: {} verified\n", printable(folder), human_bytes(m.state_bytes())));
  return ExitStatus::valid;
}

}  // namespace

ExitStatus ckpt_command(const CkptArguments& a) {
  const std::string folder = checkpoint_in(a.dir);
  const Manifest m = read_manifest(folder);
  if (a.what == CkptArguments::What::verify) return verify(folder, m);
  if (a.what == CkptArguments::What::info) {
    print_out(describe(folder, m));
    return ExitStatus::valid;
  }
  std::error_code error;
  std::filesystem::create_directories(a.out, error);
  if (error) fail_io(a.out, "cannot be made", error.message(), output_remedy);
  const std::string stem = a.out + "/" + std::filesystem::path(folder).filename().string();
  WorkProgress progress("consolidate");
  consolidate(folder, m, stem, std::ref(progress));
  print_out(fmt::format("{0}.h5\n{0}.safetensors\n", printable(stem)));
  return ExitStatus::valid;
}

}  // namespace shardmark
