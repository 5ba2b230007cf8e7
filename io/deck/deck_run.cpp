// SPDX-License-Identifier: Apache-2.0
// The sections of a deck that describe a run: `run`, `data`, and those that consist of
// their records.
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>
#include <io/files/output_folder.hpp>

namespace shardmark {
void read_trace(KeyReader& deck, std::string& trace) {
  const Json* given = deck.any("trace");
  if (given == nullptr) return;
  deck.text("trace", trace);
  const bool plain = !trace.empty() && trace.front() != '.' &&
                     trace.find_first_of("/\\") == std::string::npos && !is_run_file(trace);
  if (!plain)
    deck.origin().refuse("trace", *given,
                         "must be a file name without a folder, and not the name of another file "
                         "of the run, because it is written to --out: give \"trace.json\"");
}

void read_checkpointing(KeyReader& reader, RunSpec& run) {
  const Json* value = reader.any("activation_checkpointing");
  if (!value) return;
  run.reentrant = *value == "reentrant";
  if (!run.reentrant && !value->is_boolean())
    reader.origin().refuse(reader.key("activation_checkpointing"), *value,
                           "must be true or false, or \"reentrant\" for torch's older kind");
  run.activation_checkpointing = run.reentrant || value->get<bool>();
}

void read_run(KeyReader reader, Deck& deck) {
  reader.read(deck_keys("run"), deck);
  read_checkpointing(reader, deck.run);
  reader.finish();
}

void read_data(KeyReader reader, Deck& deck) {
  Origin& origin = reader.origin();
  DataSpec& data = deck.data;
  data.seed = deck.run.seed;
  reader.read(deck_keys("data"), deck);
  if (data.source == DataSource::file) {
    reader.need_text("path", data.path);
    data.path = origin.resolve(data.path);
  } else if (const Json* path = reader.any("path")) {
    origin.note(FindingKind::no_effect, reader.key("path"),
                brief(*path) + ": only a source of \"file\" reads a file");
  }
  reader.finish();
}

void read_plain(std::string_view section, KeyReader reader, Deck& deck) {
  reader.read(deck_keys(section), deck);
  reader.finish();
}

}  // namespace shardmark
