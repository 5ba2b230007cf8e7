// SPDX-License-Identifier: Apache-2.0
// The commands that a planner lacks, since they run or measure, or read HDF5: `run` (one deck,
// once), `calibrate` (this machine as a machine file and a page), `noise` (the jitter of this
// machine), `sweep` without --plan (the points one after another, each as `run` would), and `ckpt`,
// which works without MPI: one process reads what any number of ranks wrote.
#include <algorithm>
#include <filesystem>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/core.h>

#include <core/printable.hpp>
#include <core/text.hpp>
#include <io/checkpoint/consolidate.hpp>
#include <io/checkpoint/folder.hpp>
#include <io/checkpoint/state_reader.hpp>
#include <io/deck/deck_reader.hpp>
#include <io/files/durable_file.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/commands/sweeper.hpp>
#include <miniapp/execute/lane_times.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/provenance/fatal_signals.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/run/progress.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {

ExitStatus run_command(const RunArguments& arguments) {
  return launch([&](const World& world) { return run_deck(arguments, world).status; });
}

namespace {

std::string folder_of(const std::filesystem::path& file) {
  return file.has_parent_path() ? file.parent_path().string() : ".";
}

void write_machine(const std::string& file, const Machine& machine, std::string_view remedy) {
  const std::filesystem::path path(file);
  replace_file(folder_of(path), path.filename().string(), machine_text(machine), remedy);
}

void write(const std::string& out, const Calibration& c) {
  constexpr char remedy[] = "give --out a file in a folder that can be written";
  std::error_code error;  // replace_file says what is wrong
  std::filesystem::create_directories(folder_of(out), error);
  write_machine(out, c.machine, remedy);
  replace_file(folder_of(out), "calibration.html", calibration_html(c), remedy);
}

// Reads the machine file that --add extends. Returns nothing without --add, and if there is no file
// yet. Throws DeckError if the file describes another host.
std::optional<Machine> earlier_file(const CalibrateArguments& a, const std::string& host) {
  if (!a.add || !std::filesystem::exists(a.out)) return {};
  Machine earlier = read_machine_file(a.out);
  if (earlier.name != host)
    throw DeckError(fmt::format(
        "--add: {}: name = \"{}\": the file describes another machine than {}: give --out another "
        "file",
        a.out, earlier.name, host));
  return earlier;
}

}  // namespace

ExitStatus calibrate_command(const CalibrateArguments& a) {
  if (std::filesystem::path(a.out).filename().empty())
    throw DeckError(fmt::format("--out: {}: is not a file name: give a file, such as machine.json",
                                a.out.empty() ? "empty" : a.out));
  return launch([&](const World& world) {
    std::optional<Machine> earlier;  // on rank 0, which writes
    world.peers.agree([&] {
      if (world.peers.rank() == 0) earlier = earlier_file(a, world.node.host);
    });
    Calibration c = calibrate(a, world);
    if (earlier) c.machine = combined(std::move(c.machine), *earlier);
    world.peers.agree([&] {
      if (world.peers.rank() != 0) return;
      write(a.out, c);
      print_out(
          fmt::format("{}\n  {} samples in {}; spread {:.1f} %\nwritten: {} and calibration.html\n",
                      standing(c.machine), c.machine.provenance.samples, clock_time(c.seconds),
                      c.machine.provenance.spread * 100, a.out));
    });
    return ExitStatus::valid;
  });
}

namespace {

void add_to(Machine& machine, const Noise& noise) {
  describe_noise(noise, machine);
  const std::string command = fmt::format("noise on {}", plural(noise.all.ranks, "rank"));
  std::vector<std::string>& commands = machine.provenance.commands;
  if (std::find(commands.begin(), commands.end(), command) == commands.end())
    commands.push_back(command);
}

std::string write_files(const NoiseArguments& a, std::optional<Machine>& machine,
                        const Noise& noise) {
  std::string written;
  if (machine) {
    add_to(*machine, noise);
    write_machine(a.machine, *machine, "give --machine a file that can be written");
    written += fmt::format("written: jitter.noise of {}\n", a.machine);
  }
  if (!a.out.empty()) {
    replace_file(a.out, "noise.json", noise_json(noise), output_remedy);
    replace_file(a.out, "noise.html", noise_html(noise), output_remedy);
    written += fmt::format("written: noise.json and noise.html in {}\n", a.out);
  }
  return written;
}

}  // namespace

ExitStatus noise_command(const NoiseArguments& a) {
  require_quanta(a);
  return launch([&](const World& world) {
    const bool speaks = world.peers.rank() == 0;
    std::optional<Machine> machine;
    world.peers.agree([&] {  // whatever can fail, before time is spent
      if (!speaks) return;
      if (!a.machine.empty()) machine = read_machine_file(a.machine);
      std::error_code error;  // replace_file says what is wrong
      if (!a.out.empty()) std::filesystem::create_directories(a.out, error);
    });
    ProgressLine line(speaks);
    // Nothing is shown while quanta are timed, since that would be noise.
    const Noise noise = measure_noise(a, world, [&](const std::string& what) {
      line.show(
          fmt::format("{}: {} left", what, clock_time(std::max(0.0, a.seconds - line.seconds()))));
    });
    line.clear();
    world.peers.agree([&] {
      if (!speaks) return;
      const std::string written = write_files(a, machine, noise);
      print_out(a.format == "json" ? noise_json(noise) : noise_text(noise) + written);
    });
    return ExitStatus::valid;
  });
}

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
      if (axis.ranks > 1) add_item(text, fmt::format("{} = {}", axis.name(), axis.ranks));
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
    add_item(states, fmt::format("{} ({})", to_string(s), to_string(m.dtype_of(s))));
  fmt::format_to(out, "  states     {}: {}\n", states, human_bytes(m.state_bytes()));
  struct Contents {
    std::int64_t elems = 0, ranges = 0;
  };
  std::vector<Contents> of_file(m.files.size());
  for (const CheckpointPart& p : m.parts) {
    Contents& c = of_file[p.file];
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
  for (const std::string& file : consolidate(folder, m, stem, std::ref(progress)))
    print_out(printable(file) + "\n");
  return ExitStatus::valid;
}

namespace {

// A point must not resume from a checkpoint of another one.
void refuse_resuming(const SweepArguments& a, const GridPoint& at) {
  const Deck deck = load_deck(a.deck, sets_of(a, at));
  if (deck.checkpoint.resume != "none")
    throw DeckError(fmt::format(
        "{}: checkpoint.resume = \"{}\": the points of a sweep would resume from one another: give "
        "--set checkpoint.resume=none",
        deck.path, deck.checkpoint.resume));
}

// Collective. All ranks know if a point is refused; only rank 0 uses the reason.
SweepPoint run_point(const SweepArguments& a, const GridPoint& at, const std::string& folder,
                     const World& world) {
  SweepPoint point{.at = at};
  const std::int64_t start_ns = monotonic_ns();
  try {
    world.peers.agree([&] { refuse_resuming(a, at); });
    const RunOutcome run = run_deck({a.deck, sets_of(a, at), folder, true, a.machine}, world);
    point.status = run.status;
    point.stop = run.result.stop;
    point.state = run.result.valid() ? SweepPoint::State::valid : SweepPoint::State::invalid;
    point.reason = run.result.invalid_reasons();
    Budgets budgets;
    for (const Tier t : all_values<Tier>) budgets[t] = run.result.tiers[t].budget;
    point.plan = plan_figures(run.deck, run.program, budgets);
    point.run = run_figures(run.deck, run.result, seconds_since(start_ns));
    if (run.result.prediction) point.predicted = predicted_figures(run.result.prediction->point);
  } catch (const AgreedError& e) {
    if (e.status() == ExitStatus::output || e.status() == ExitStatus::comm) throw;
    point.state = SweepPoint::State::refused;
    point.status = e.status();
    for (const std::string& what : world.peers.gather(std::string(e.what())))
      if (point.reason.empty()) point.reason = failure_text({e.status(), what});
  }
  give_back_freed_memory();
  return point;
}

// A signal asks the whole sweep to stop. Its time limit stops a point alone, which is then INVALID.
bool stops_sweep(const SweepPoint& point) {
  return point.status == ExitStatus::stopped && point.stop != StopCause::time_limit;
}

// The point that was running is not kept, so that the next call runs it again.
ExitStatus stop_sweep(Peers& peers, const SweepPoint& point) {
  peers.agree([&] {
    if (peers.rank() == 0)
      print_out(fmt::format(
          "\nThe sweep was stopped by {}. Start it again to go on: the points that are done are "
          "kept.\n",
          to_string(point.stop)));
  });
  return ExitStatus::stopped;
}

ExitStatus run_points(const SweepArguments& a, const World& world) {
  Peers& peers = world.peers;
  std::optional<Sweeper> sweeper;  // only on rank 0, so that other nodes need not see the folder
  std::vector<GridPoint> points;
  std::vector<char> todo;
  peers.agree([&] {
    points = points_of(parse_axes(a.vary), {peers.size()});
    todo.resize(points.size());
    if (peers.rank() != 0) return;
    sweeper.emplace(a, std::vector<int>{peers.size()});
    sweeper->begin();
    for (std::size_t i = 0; i < points.size(); ++i) todo[i] = sweeper->done(points[i]) ? 0 : 1;
  });
  todo = peers.gather(todo);  // those of rank 0 come first
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (todo[i] == 0) continue;
    const std::string folder = sweeper ? sweeper->folder_of(points[i]) : std::string("unused");
    const SweepPoint point = run_point(a, points[i], folder, world);
    if (stops_sweep(point)) return stop_sweep(peers, point);
    peers.agree([&] {
      if (sweeper) sweeper->keep(i, point);
    });
  }
  ExitStatus status = ExitStatus::valid;
  peers.agree([&] {
    if (sweeper) status = sweeper->end();
  });
  return peers.gather(status)[0];
}

}  // namespace

ExitStatus run_sweep(const SweepArguments& a) {
  return launch([&](const World& world) { return run_points(a, world); });
}

}  // namespace shardmark
