// SPDX-License-Identifier: Apache-2.0
// The options are declared from the texts in help/, which say what each of them means.
#include <functional>
#include <map>
#include <stdexcept>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/core.h>

#include <core/text.hpp>
#include <io/keys/nearest.hpp>
#include <miniapp/commands/command_line.hpp>
#include <miniapp/commands/commands.hpp>
#include <miniapp/commands/help/help_page.hpp>
#include <miniapp/provenance/version.hpp>
#include <miniapp/ranks/launcher.hpp>
#include <miniapp/report/standard_output.hpp>

namespace shardmark {

namespace {

// What an option of the program itself prints; thrown, since parsing ends there.
struct Printed {
  std::string text;
};

// The variable that takes the value of an option. An integer has a lower bound.
struct Binding {
  std::string_view name;
  std::variant<bool*, int*, std::string*, std::vector<std::string>*> variable;
  int lowest = 0;
};

ExitStatus show(const std::string& text) {
  if (speaks_for_launch()) print_out(text);
  return ExitStatus::valid;
}

CLI::Validator at_least(int lowest) {
  return {[lowest](std::string& text) {
            int value = 0;
            const bool ok = CLI::detail::lexical_cast(text, value) && value >= lowest;
            return ok ? std::string()
                      : fmt::format("{}: must be an integer, at least {} and below 2^31", text,
                                    lowest);
          },
          "", ""};
}

CLI::Validator one_of(const std::vector<std::string_view>& choices) {
  return CLI::IsMember(std::vector<std::string>(choices.begin(), choices.end()));
}

// Help that shows another default than the program has is a defect.
void require_preset(const OptionHelp& help, const std::string& value) {
  if (!help.preset.empty() && help.preset != value)
    throw std::logic_error(fmt::format("help of {}: the default is {}", help.name, value));
}

void add_option(CLI::App& app, const OptionHelp& help, const Binding& binding) {
  const std::string name(help.name);
  CLI::Option* option = nullptr;
  if (auto* const* flag = std::get_if<bool*>(&binding.variable)) {
    app.add_flag(name, **flag);
  } else if (auto* const* number = std::get_if<int*>(&binding.variable)) {
    require_preset(help, fmt::format("{}", **number));
    option = app.add_option(name, **number)->check(at_least(binding.lowest));
  } else if (auto* const* text = std::get_if<std::string*>(&binding.variable)) {
    require_preset(help, **text);
    option = app.add_option(name, **text);
  } else {
    option = app.add_option(name, *std::get<std::vector<std::string>*>(binding.variable));
    option->take_all()->allow_extra_args(help.positional());
  }
  if (option == nullptr) return;
  option->required(help.required);
  if (!help.choices.empty()) option->check(one_of(help.choices));
}

// Adds a command below `parent` with the options of its help, each of which is bound to a variable.
CLI::App* add_command(CLI::App& parent, std::string_view name,
                      const std::vector<Binding>& bindings) {
  const CommandHelp& help = help_of(name);
  CLI::App* app = parent.add_subcommand(std::string(last_word(name)));
  if (bindings.size() != help.options.size())
    throw std::logic_error(fmt::format("help of {}: has other options", name));
  for (const Binding& binding : bindings) add_option(*app, option_of(help, binding.name), binding);
  return app;
}

void add_program_options(CLI::App& app, const std::string& commit) {
  app.add_flag_callback("--version", [commit] { throw Printed{version_page(commit)}; });
  app.add_flag_callback("--help-man", [] { throw Printed{man_page(version())}; });
  app.add_option_function<std::string>(
         "--completion", [](const std::string& shell) { throw Printed{completion(shell)}; })
      ->check(one_of(option_of(program_help(), "--completion").choices));
}

// "ckpt info", as far as the arguments were understood.
std::string parsed_command(const CLI::App& app) {
  if (app.get_subcommands().empty()) return "";
  const CLI::App* first = app.get_subcommands().front();
  const std::string rest = parsed_command(*first);
  return first->get_name() + (rest.empty() ? "" : " " + rest);
}

// The option that was probably meant, where CLI11 says only that another was not expected.
std::string explain_option(const CLI::ParseError& error, const std::string& name,
                           const CLI::App& app) {
  std::vector<std::string> known{"--help"};
  for (const OptionHelp& option : help_of(name).options)
    if (!option.positional()) known.emplace_back(option.name);
  for (const std::string& typed : app.remaining()) {
    if (!typed.starts_with("-")) continue;
    const std::string meant = did_you_mean(typed.substr(0, typed.find('=')), known);
    return fmt::format("{} is not an option of `shardmark{}{}`{}{}", typed, name.empty() ? "" : " ",
                       name, meant.empty() ? "" : ": ", meant);
  }
  return error.what();
}

// What is wrong, where CLI11 says only that a subcommand is missing.
std::string explain(const CLI::ParseError& error, const CLI::App& app) {
  const std::string name = parsed_command(app);
  const CLI::App* last = &app;
  while (!last->get_subcommands().empty()) last = last->get_subcommands().front();
  const auto below = commands_below(name);
  if (below.empty() || last->remaining().empty() || last->remaining().front().starts_with("-"))
    return explain_option(error, name, *last);
  std::vector<std::string> known, full;
  for (const CommandHelp* c : below) known.emplace_back(last_word(c->name));
  for (const CommandHelp& c : commands_help())
    if (name.empty() || c.name.starts_with(name + " "))
      full.emplace_back(name.empty() ? c.name : last_word(c.name));
  const std::string typed = last->remaining().front();
  const std::string meant = did_you_mean(typed, full);
  return fmt::format("\"{}\" is not a subcommand: {}{}give one of {}", typed, meant,
                     meant.empty() ? "" : " ", join(known, ", "));
}

// All commands, the variables that their options set, and how each is called.
class CommandLine {
 public:
  explicit CommandLine(const std::string& commit) {
    add_program_options(app_, commit);
    add("run", run_command, run_,
        {{"DECK", &run_.deck},
         {"--set", &run_.sets},
         {"--machine", &run_.machine},
         {"--out", &run_.out}});
    add("plan", plan_command, plan_,
        {{"DECK", &plan_.deck},
         {"--set", &plan_.sets},
         {"--ranks", &plan_.ranks, 1},
         {"--rank", &plan_.rank, 0},
         {"--ranks-per-node", &plan_.ranks_per_node, 1},
         {"--format", &plan_.format}});
    add("trace", trace_command, trace_,
        {{"DECK", &trace_.deck},
         {"--set", &trace_.sets},
         {"--ranks", &trace_.ranks, 1},
         {"--ranks-per-node", &trace_.ranks_per_node, 0},
         {"--machine", &trace_.machine},
         {"--format", &trace_.format},
         {"--out", &trace_.out}});
    add("predict", predict_command, predict_,
        {{"DECK", &predict_.deck},
         {"--model", &predict_.model},
         {"--deepspeed", &predict_.deepspeed},
         {"--sequence", &predict_.sequence, 1},
         {"--batch", &predict_.batch, 0},
         {"--set", &predict_.sets},
         {"--machine", &predict_.machine},
         {"--ranks", &predict_.ranks},
         {"--ranks-per-node", &predict_.ranks_per_node, 0},
         {"--ignore-memory", &predict_.ignore_memory},
         {"--format", &predict_.format},
         {"--out", &predict_.out}});
    add("calibrate", calibrate_command, calibrate_,
        {{"--out", &calibrate_.out},
         {"--for", &calibrate_.deck},
         {"--set", &calibrate_.sets},
         {"--disk", &calibrate_.disk},
         {"--quick", &calibrate_.quick},
         {"--add", &calibrate_.add}});
    add("noise", noise_command, noise_,
        {{"--seconds", &noise_.seconds, 1},
         {"--quantum-us", &noise_.quantum_us, 10},
         {"--machine", &noise_.machine},
         {"--out", &noise_.out},
         {"--format", &noise_.format}});
    add("advise", advise_command, advise_,
        {{"DECK", &advise_.deck},
         {"--model", &advise_.model},
         {"--deepspeed", &advise_.deepspeed},
         {"--sequence", &advise_.sequence, 1},
         {"--set", &advise_.sets},
         {"--machine", &advise_.machine},
         {"--ranks", &advise_.ranks, 1},
         {"--ranks-per-node", &advise_.ranks_per_node, 0},
         {"--for", &advise_.framework},
         {"--batch", &advise_.batch, 0},
         {"--top", &advise_.top, 1},
         {"--write", &advise_.write},
         {"--networks", &advise_.networks},
         {"--max-model", &advise_.max_model},
         {"--format", &advise_.format}});
    add("compare", compare_command, compare_,
        {{"FILE", &compare_.files}, {"--html", &compare_.html}, {"--format", &compare_.format}});
    add("machine check", machine_check_command, machine_, {{"FILE", &machine_}});
    add("sweep", sweep_command, sweep_,
        {{"DECK", &sweep_.deck},
         {"--set", &sweep_.sets},
         {"--vary", &sweep_.vary},
         {"--plan", &sweep_.plan},
         {"--ranks", &sweep_.ranks},
         {"--ranks-per-node", &sweep_.ranks_per_node, 0},
         {"--machine", &sweep_.machine},
         {"--out", &sweep_.out}});
    add("ckpt info", {{"DIR", &ckpt_.dir}}, ckpt(CkptArguments::What::info));
    add("ckpt verify", {{"DIR", &ckpt_.dir}}, ckpt(CkptArguments::What::verify));
    add("ckpt consolidate", {{"DIR", &ckpt_.dir}, {"--out", &ckpt_.out}},
        ckpt(CkptArguments::What::consolidate));
    add("deck check", deck_check_command, check_,
        {{"DECK", &check_.deck}, {"--set", &check_.sets}, {"--ranks", &check_.ranks, 1}});
    add("decks", {}, decks_command);
    add("machines", machines_command, machines_format_, {{"--format", &machines_format_}});
    add("submit", submit_command, submit_,
        {{"DIR", &submit_.folders},
         {"--out", &submit_.out},
         {"--form", &submit_.form},
         {"--machine", &submit_.machine},
         {"--changes", &submit_.changes}});
    add("verify", verify_command, archive_, {{"ARCHIVE", &archive_}});
    add("table", table_command, table_, {{"ARCHIVE", &table_.archives}, {"--out", &table_.out}});
  }

  /// Parses the arguments and calls the command. Returns the exit status.
  ExitStatus run(int argc, char** argv) {
    try {
      app_.parse(argc, argv);
      // Not by require_subcommand(), which newer releases of CLI11 check before `--version` is
      // heard.
      if (app_.get_subcommands().empty()) throw CLI::RequiredError::Subcommand(1);
    } catch (const Printed& printed) {
      return show(printed.text);
    } catch (const CLI::CallForHelp&) {
      return show(help_page(help_of(parsed_command(app_))));
    } catch (const CLI::ParseError& e) {
      return arguments_error(explain(e, app_), parsed_command(app_));
    }
    return calls_.at(parsed_command(app_))();
  }

 private:
  std::function<ExitStatus()> ckpt(CkptArguments::What what) {
    return [this, what] {
      ckpt_.what = what;
      return ckpt_command(ckpt_);
    };
  }

  // `arguments` are members that `bindings` are of.
  template<class Arguments>
  void add(std::string_view name, ExitStatus (*command)(const Arguments&),
           const Arguments& arguments, const std::vector<Binding>& bindings) {
    add(name, bindings, [command, &arguments] { return command(arguments); });
  }
  void add(std::string_view name, const std::vector<Binding>& bindings,
           const std::function<ExitStatus()>& call) {
    CLI::App* parent = &app_;
    if (const auto space = name.find(' '); space != std::string_view::npos) {
      const std::string_view group = name.substr(0, space);
      if (!groups_.contains(group)) {
        groups_[group] = add_command(app_, group, {});
        groups_[group]->require_subcommand(1);
      }
      parent = groups_[group];
    }
    add_command(*parent, name, bindings);
    calls_[std::string(name)] = call;
  }

  CLI::App app_;
  std::map<std::string_view, CLI::App*> groups_;
  std::map<std::string, std::function<ExitStatus()>> calls_;
  RunArguments run_;
  PlanArguments plan_;
  TraceArguments trace_;
  PredictArguments predict_;
  CalibrateArguments calibrate_;
  NoiseArguments noise_;
  AdviseArguments advise_;
  CompareArguments compare_;
  std::string machine_, machines_format_ = "text", archive_;
  SweepArguments sweep_;
  CkptArguments ckpt_;
  CheckArguments check_;
  SubmitArguments submit_;
  TableArguments table_;
};

}  // namespace

ExitStatus run_command_line(int argc, char** argv, const std::string& commit) {
  return CommandLine(commit).run(argc, argv);
}

bool speaks_for_launch() {
  return launched_rank() == 0;
}

ExitStatus arguments_error(const std::string& what, const std::string& command) {
  if (speaks_for_launch())
    print_error(
        fmt::format("{}: see `shardmark {}--help`", what, command.empty() ? "" : command + " "));
  return ExitStatus::usage;
}

}  // namespace shardmark
