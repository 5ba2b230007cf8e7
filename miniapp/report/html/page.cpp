// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>

#include <core/printable.hpp>
#include <miniapp/charts/page.hpp>
#include <miniapp/report/html/page.hpp>
#include <miniapp/report/html/sections.hpp>

namespace shardmark {

std::string report_html(const Deck& deck, const Program& p, const Result& r) {
  using namespace html;
  std::string page = verdict_section(deck, p, r);
  page += checks_section(r);
  page += loss_section(deck, r);
  page += checkpoints_section(r);
  page += time_section(p, r);
  page += memory_section(p, r);
  page += collectives_section(deck, p, r);
  page += energy_section(r);
  page += provenance_section(r);
  page += deck_section(deck, r);
  return document(
      fmt::format("{}: ShardMark {}", printable(deck.name), r.valid() ? "VALID" : "INVALID"), page);
}

}  // namespace shardmark
