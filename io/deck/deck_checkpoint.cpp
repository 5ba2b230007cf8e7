// SPDX-License-Identifier: Apache-2.0
// The section `checkpoint` of a deck.
#include <io/deck/deck_keys.hpp>
#include <io/deck/deck_sections.hpp>

namespace shardmark {
namespace {

void read_hints(KeyReader& reader, CheckpointSpec& checkpoint) {
  const Json* hints = reader.any("hints");
  if (!hints) return;
  constexpr const char* must = "must be an object of strings, as MPI_Info_set takes them";
  if (!hints->is_object()) reader.origin().refuse(reader.key("hints"), *hints, must);
  for (const auto& [name, value] : hints->items()) {
    const std::string key = join_key(reader.key("hints"), name);
    if (!value.is_string()) reader.origin().refuse(key, value, must);
    checkpoint.hints.emplace_back(name, value.get<std::string>());
  }
}

void read_layout(KeyReader& reader, CheckpointSpec& checkpoint) {
  const bool shared = reader.word("layout", {{"file_per_rank"}, {"shared"}}, 0) == 1;
  const Json* given = reader.any("ranks_per_file");
  if (shared && given)
    reader.origin().refuse(reader.key("ranks_per_file"), *given,
                           "must not be given with layout \"shared\", in which all ranks write one "
                           "file: remove one of the two");
  if (shared) checkpoint.ranks_per_file = 0;
  if (!checkpoint.hints.empty() && checkpoint.ranks_per_file == 1)
    reader.origin().note(FindingKind::no_effect, reader.key("hints"),
                         "hints apply only to files that several ranks write");
}

void check_resume(const KeyReader& reader, const CheckpointSpec& checkpoint, const Origin& origin) {
  if (checkpoint.resume.empty() || checkpoint.resume.find('/') != std::string::npos ||
      checkpoint.resume[0] == '.')
    origin.refuse(reader.key("resume"), checkpoint.resume,
                  "must be \"none\", \"latest\", \"newest-good\" or the name of a checkpoint in "
                  "checkpoint.dir, like \"step-00000010\"");
}

}  // namespace

void read_checkpoint(KeyReader reader, Deck& deck) {
  Origin& origin = reader.origin();
  CheckpointSpec& checkpoint = deck.checkpoint;
  reader.read(deck_keys("checkpoint"), deck);
  checkpoint.dir = origin.resolve_output(checkpoint.dir);
  if ((checkpoint.alignment_bytes & (checkpoint.alignment_bytes - 1)) != 0)
    origin.refuse(reader.key("alignment_bytes"), *reader.any("alignment_bytes"),
                  "must be a power of two");
  check_resume(reader, checkpoint, origin);
  read_hints(reader, checkpoint);
  read_layout(reader, checkpoint);
  if (checkpoint.async && checkpoint.ranks_per_file != 1)
    origin.refuse(reader.key("async"), true,
                  "must be false if ranks share a file, because only the training thread may use "
                  "MPI-IO: give layout \"file_per_rank\" without ranks_per_file");
  if (!checkpoint.writes() && checkpoint.resume == "none")
    origin.note(FindingKind::warning, "checkpoint",
                "no checkpoint is written (every = 0) and none is resumed");
  reader.finish();
}

}  // namespace shardmark
