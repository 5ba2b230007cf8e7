// SPDX-License-Identifier: Apache-2.0
// The tables of the printed report, as parts of a page.
#pragma once

#include <string>

#include <core/plan/deck/deck.hpp>
#include <core/plan/plan.hpp>
#include <miniapp/measure/result.hpp>

namespace shardmark::html {

/// Name, verdict, figure of merit and class, and one line about what was run.
std::string verdict_section(const Deck& deck, const Program& program, const Result& result);
std::string checks_section(const Result& result);
std::string memory_section(const Program& program, const Result& result);
std::string collectives_section(const Deck& deck, const Program& program, const Result& result);
std::string time_section(const Program& program, const Result& result);
/// Empty if no checkpoint was read or written.
std::string checkpoints_section(const Result& result);
/// Empty if no counter of energy was read.
std::string energy_section(const Result& result);
/// Empty if nothing was trained.
std::string loss_section(const Deck& deck, const Result& result);
/// Ranks, software, environment, warnings.
std::string provenance_section(const Result& result);
/// The deck as used, and the hashes that identify run and result.
std::string deck_section(const Deck& deck, const Result& result);

}  // namespace shardmark::html
