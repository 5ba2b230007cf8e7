// SPDX-License-Identifier: Apache-2.0
// Where in a checkpoint each element of the model is. Parts are numbered as the ranks that wrote
// them number their part of the model (core/plan/model/whole_model.hpp), and whoever reads may have
// yet another part: both meet in the parameters of the whole model.
//
// In this example two ranks that divide a tensor of 2 x 4 wrote a piece of 2 x 2 each. A reader
// that has columns 1 and 2 of the tensor finds four ranges, and a reader that has the second piece
// finds one:
//     whole   0 1 2 3     pieces  0 1 | 2 3     readers  . 1 2 .     . . 2 3
//             4 5 6 7             4 5 | 6 7              . 5 6 .     . . 6 7
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include <core/plan/model/whole_model.hpp>
#include <io/checkpoint/manifest.hpp>

namespace shardmark {

/// Elements of a reader, from its element `first` on, that are stored one after another: in part
/// `part` of the checkpoint, from the part's element `at` on.
struct StoredRange {
  std::int64_t first = 0, elems = 0;
  int part = 0;
  std::int64_t at = 0;
};
using TakeRange = std::function<void(const StoredRange&)>;

/// The places of all elements of a model in a checkpoint, for a reader with a part of the model.
class StoredLayout {
 public:
  /// `view` describes the reader's part of the model; an empty one is the whole model. Throws
  /// std::invalid_argument, which names an element or a parameter, unless the parts hold each
  /// element of the model once.
  explicit StoredLayout(const Manifest& manifest, ModelView view = {});

  /// Calls `take` for each range of the reader's elements [first, first + elems), in their order.
  void find(std::int64_t first, std::int64_t elems, const TakeRange& take) const;

 private:
  struct Entry {
    std::int64_t first, elems;  // of the piece
    int part;
    std::int64_t at;
  };
  // Elements of a parameter that some parts have: a rectangle, if rows have `pitch` elements.
  struct Piece {
    TensorSlice slice;
    std::int64_t elems = 0, row = 0, column = 0, width = 0, pitch = 0;
    std::vector<Entry> entries = {};
    std::int64_t covered = 0;  // elements of all entries
  };
  struct WholeParam {
    std::int64_t first_elem = 0, elems = 0;
    std::vector<Piece> pieces = {};  // by column, then by row
  };
  // A view, with the first element and the piece of each parameter.
  struct Numbered {
    ModelView view;
    std::vector<std::int64_t> firsts;
    std::vector<std::size_t> pieces;
  };

  Numbered numbered(ModelView view) const;
  static Piece rectangle(const ParamInWhole& part, const WholeParam& whole);
  void add_pieces(std::vector<Numbered>& views);
  void add_part(const CheckpointPart& part, int index, const Numbered& view);
  void finish(WholeParam& param);

  std::vector<WholeParam> params_;
  Numbered reader_;
};

}  // namespace shardmark
