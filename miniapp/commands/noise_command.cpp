// SPDX-License-Identifier: Apache-2.0
// `shardmark noise`: measures the jitter of this machine.
#include <algorithm>
#include <filesystem>

#include <fmt/core.h>

#include <core/text.hpp>
#include <io/files/durable_file.hpp>
#include <io/machine/machine_file.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/report/standard_output.hpp>
#include <miniapp/run/launch.hpp>
#include <miniapp/run/progress.hpp>
#include <miniapp/tools/noise/noise.hpp>

namespace shardmark {
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
    const std::filesystem::path path(a.machine);
    const std::string folder = path.has_parent_path() ? path.parent_path().string() : ".";
    replace_file(folder, path.filename().string(), machine_text(*machine),
                 "give --machine a file that can be written");
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

}  // namespace shardmark
