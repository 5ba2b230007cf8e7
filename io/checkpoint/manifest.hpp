// SPDX-License-Identifier: Apache-2.0
// The description of a checkpoint in its file `manifest.json`: how far training had come, what the
// model was, and which file contains which elements of the model. Elements are numbered over the
// whole model, parameter after parameter in registration order, whatever partition, stage or
// schedule wrote them. Frozen parameters are not stored and not counted: they keep the values that
// the deck's seed gives them. This numbering makes it possible to read them under any other
// partition.
//
// Where ranks divide layers or experts, each numbers the elements of its part of the model, and its
// view says which elements of the whole model these are.
//
// Two ranks, 10 elements, rank 1 with two ranges:
//     part of rank 0   master[0..4]   map [0, 5]         model elements 0 1 2 3 4
//     part of rank 1   master[0..4]   map [8, 2, 5, 3]   model elements 8 9, 5 6 7
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <core/plan/deck/loss_scale.hpp>
#include <core/plan/interpret/owned_elements.hpp>
#include <core/plan/model/whole_model.hpp>
#include <core/plan/plan.hpp>

namespace shardmark {

/// How far training has come, between two steps.
struct TrainingPosition {
  std::int64_t step = 0;  // the next step; skipped steps count
  // How often the learning-rate scheduler advanced: steps that were not skipped.
  std::int64_t updates = 0;
  LossScaleState loss_scale;
  bool operator==(const TrainingPosition&) const = default;
};

/// What one rank wrote: equally many elements of each state, in the order of the map, from element
/// `offset` of the file's datasets on.
struct CheckpointPart {
  int rank = 0, file = 0;
  std::int64_t offset = 0, elems = 0;
  std::vector<ElementRange> map;
  int view = 0;  // in Manifest::views, in whose elements `map` counts, if there are any
  EnumArray<State, std::uint64_t> digest{};  // XXH3 over the checksums of the part's blocks
  std::int64_t first_block = 0;  // in the file's datasets of checksums; derived from the offsets
};

/// One file of a checkpoint.
struct CheckpointFile {
  std::string name;                             // in the folder of the checkpoint
  std::int64_t bytes = 0;                       // of the whole file
  EnumArray<State, std::int64_t> first_byte{};  // of each dataset in the file
};

/// A parameter of the model as the checkpoint holds it.
struct StoredParam {
  std::string name;
  std::int64_t elems = 0;
  std::vector<std::int64_t> shape;  // slowest dimension first
  bool operator==(const StoredParam&) const = default;
};

/// The contents of `manifest.json`.
struct Manifest {
  TrainingPosition position;
  std::int64_t samples = 0;  // the number of samples that were used for training
  int world = 1, stage = 0;
  std::string schedule;
  Dtype model_dtype = Dtype::fp32;         // of param; all other states are fp32
  Optimizer optimizer = Optimizer::adamw;  // one of those that share its states
  std::vector<StoredParam> params;         // of the whole model, without frozen ones
  std::string frozen;  // hash of the frozen parameters and their seed; empty: there are none
  std::vector<ModelView> views;  // of the parts of the model that ranks had; none: the whole
  std::vector<CheckpointFile> files;
  std::vector<CheckpointPart> parts;
  std::string deck;  // the JSON text of the deck that was used
  std::map<std::string, std::string> versions;

  bool stores(State state) const { return stores_state(model_dtype, optimizer, state); }
  std::vector<State> stored() const { return stored_states(model_dtype, optimizer); }
  Dtype dtype_of(State state) const { return state == State::param ? model_dtype : Dtype::fp32; }
  std::int64_t elems() const;
  std::int64_t state_bytes() const;  // without checksums and HDF5's own data
};

/// The newest format. Checkpoints without views have the first one, so that older programs read
/// them.
inline constexpr int checkpoint_format = 2;
inline constexpr const char* manifest_file = "manifest.json";
/// Twice what 4096 ranks need for a model of 700 tensors that are all sharded over all ranks.
inline constexpr std::int64_t max_manifest_bytes = std::int64_t{128} << 20;

/// Returns the text of the file. It contains a checksum of itself.
std::string write_manifest(const Manifest& manifest);
/// Throws IoError, which names `path`, if the text is not a manifest, has a newer format, was
/// changed or truncated, has numbers out of bounds, or parts that do not cover the model exactly
/// once.
Manifest parse_manifest(const std::string& text, const std::string& path);
/// Returns the manifest of the checkpoint in `folder`. Throws IoError as above, and also if it is
/// not a regular file, is larger than `max_manifest_bytes`, or belongs to another step than the
/// name of the folder says.
Manifest read_manifest(const std::string& folder);

}  // namespace shardmark
