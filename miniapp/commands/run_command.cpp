// SPDX-License-Identifier: Apache-2.0
// `shardmark run`: one deck, once.
#include <miniapp/commands/commands.hpp>
#include <miniapp/run/driver.hpp>
#include <miniapp/run/launch.hpp>

namespace shardmark {

ExitStatus run_command(const RunArguments& arguments) {
  return launch([&](const World& world) { return run_deck(arguments, world).status; });
}

}  // namespace shardmark
