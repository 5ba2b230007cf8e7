// SPDX-License-Identifier: Apache-2.0
// `shardmark calibrate`: measures this machine and writes a machine file and a page.
#include <filesystem>
#include <optional>
#include <utility>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/files/durable_file.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/predict/prediction.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/tools/calibrate/calibrate.hpp>
#include <miniapp/tools/calibrate/combine.hpp>

namespace shardmark {
namespace {

constexpr char remedy[] = "give --out a file in a folder that can be written";

void write(const std::string& out, const Calibration& c) {
  const std::filesystem::path path(out);
  const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
  if (path.has_parent_path()) {
    std::error_code error;
    std::filesystem::create_directories(path.parent_path(), error);
  }
  replace_file(folder, path.filename().string(), machine_text(c.machine), remedy);
  replace_file(folder, "calibration.html", calibration_html(c), remedy);
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

}  // namespace shardmark
