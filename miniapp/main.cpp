// SPDX-License-Identifier: Apache-2.0
// The program: arguments in, a subcommand, its exit status out. Errors end here: one line on
// standard error and the status that its type stands for.
#include <cstdio>
#include <functional>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <miniapp/commands/arguments_error.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/provenance/version.hpp>

namespace {

using namespace shardmark;

int exit_code(ExitStatus status) {
  return static_cast<int>(status);
}

int report(const std::string& what, ExitStatus status) {
  if (!what.empty() && speaks_for_launch()) fmt::print(stderr, "shardmark: {}\n", what);
  return exit_code(status);
}

CLI::Validator at_least(int lowest) {
  return CLI::Validator(
      [lowest](std::string& text) {
        int value = 0;
        const bool ok = CLI::detail::lexical_cast(text, value) && value >= lowest;
        return ok ? std::string()
                  : fmt::format("{}: must be an integer, at least {} and below 2^31", text, lowest);
      },
      "", "");
}

// What is wrong, where CLI11 only says that a subcommand is missing.
std::string explain(const CLI::ParseError& error, const CLI::App& app, const std::string& known) {
  if (!app.get_subcommands().empty() || app.remaining().empty()) return error.what();
  return fmt::format("\"{}\" is no subcommand: give one of {}", app.remaining().front(), known);
}

void add_deck(CLI::App& command, std::string& deck, std::vector<std::string>& sets) {
  command.add_option("DECK", deck, "input deck, a JSON file")->required();
  command.add_option("--set", sets, "override a key of the deck: key.path=value")
      ->take_all()
      ->allow_extra_args(false);
}

void add_sweep(CLI::App& app, SweepArguments& sweep) {
  add_deck(app, sweep.deck, sweep.sets);
  app.add_option("--vary", sweep.vary, "a key and its values: key.path=value,value")
      ->required()
      ->take_all()
      ->allow_extra_args(false);
  app.add_flag("--plan", sweep.plan, "plan the points only, without MPI");
  app.add_option("--ranks", sweep.ranks, "world sizes to plan for: 1,2,8");
  app.add_option("--ranks-per-node", sweep.ranks_per_node, "how many of them share a node")
      ->check(at_least(1));
  app.add_option("--out", sweep.out, "folder for table, page and a folder a point")
      ->capture_default_str();
}

void add_ckpt(CLI::App& app, CkptArguments& ckpt) {
  using What = CkptArguments::What;
  app.require_subcommand(1);
  const auto add = [&](const char* name, What what, const char* help) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("DIR", ckpt.dir, "a checkpoint, or a folder of them: the latest")->required();
    sub->callback([&ckpt, what] { ckpt.what = what; });
    return sub;
  };
  add("info", What::info, "what is in it");
  add("verify", What::verify, "whether all of its checksums are right");
  add("consolidate", What::consolidate, "its fp32 parameters as one .h5 and one .safetensors file")
      ->add_option("--out", ckpt.out, "folder for both")
      ->capture_default_str();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{
      "ShardMark: trains a transformer under ZeRO stage 0 to 3 and proves what memory and "
      "communication it takes."};
  app.set_version_flag("--version", "shardmark " + version());
  app.require_subcommand(1);

  RunArguments run;
  CLI::App* run_app = app.add_subcommand("run", "run a deck, under mpiexec or srun");
  add_deck(*run_app, run.deck, run.sets);
  run_app->add_option("--out", run.out, "folder for report.json and losses.csv")
      ->capture_default_str();

  PlanArguments plan;
  CLI::App* plan_app = app.add_subcommand("plan", "print what one rank of any world would do");
  add_deck(*plan_app, plan.deck, plan.sets);
  plan_app->add_option("--ranks", plan.ranks, "world size")->required()->check(at_least(1));
  plan_app->add_option("--rank", plan.rank, "whose plan")->check(at_least(0));
  plan_app->add_option("--ranks-per-node", plan.ranks_per_node, "how many of them share a node")
      ->check(at_least(1));
  plan_app->add_option("--format", plan.format, "how to print it")
      ->check(CLI::IsMember({"text", "json", "dot"}))
      ->capture_default_str();

  SweepArguments sweep;
  CLI::App* sweep_app = app.add_subcommand("sweep", "run or plan a deck over a grid of values");
  add_sweep(*sweep_app, sweep);

  CheckArguments check;
  CLI::App* deck_app = app.add_subcommand("deck", "look at a deck without running it");
  deck_app->require_subcommand(1);
  CLI::App* check_app =
      deck_app->add_subcommand("check", "what is wrong, without effect, or a default");
  add_deck(*check_app, check.deck, check.sets);
  check_app->add_option("--ranks", check.ranks, "world size")->check(at_least(1));

  CkptArguments ckpt;
  CLI::App* ckpt_app = app.add_subcommand("ckpt", "look at a checkpoint, or make one file of it");
  add_ckpt(*ckpt_app, ckpt);

  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForAllHelp& e) {
    return app.exit(e);
  } catch (const CLI::CallForVersion& e) {
    return app.exit(e);
  } catch (const CLI::ParseError& e) {
    return arguments_error(deck_app->parsed()   ? explain(e, *deck_app, "check")
                           : ckpt_app->parsed() ? explain(e, *ckpt_app, "info, verify, consolidate")
                                                : explain(e, app, "run, plan, sweep, ckpt, deck"));
  }

  try {
    if (run_app->parsed()) return exit_code(run_command(run));
    if (plan_app->parsed()) return exit_code(plan_command(plan));
    if (sweep_app->parsed()) return exit_code(sweep_command(sweep));
    if (ckpt_app->parsed()) return exit_code(ckpt_command(ckpt));
    return exit_code(deck_check_command(check));
  } catch (const Error& e) {
    return report(e.what(), e.status());
  } catch (const std::exception& e) {
    return report(e.what(), ExitStatus::usage);
  }
}
