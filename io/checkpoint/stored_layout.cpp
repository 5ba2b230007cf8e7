// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <utility>

#include <fmt/core.h>

#include <io/checkpoint/stored_layout.hpp>

namespace shardmark {
namespace {

[[noreturn]] void wrong(const std::string& what) {
  throw std::invalid_argument(what);
}

// Calls `f(i, at, n, done)` for each parameter i that has elements of [first, first + elems): they
// are [at, at + n) of the parameter, and `done` elements come before them.
template<class F>
void for_each_param(const std::vector<std::int64_t>& firsts, const ModelView& view,
                    std::int64_t first, std::int64_t elems, const F& f) {
  auto i = static_cast<std::size_t>(
      std::distance(firsts.begin(), std::upper_bound(firsts.begin(), firsts.end(), first)) - 1);
  for (std::int64_t done = 0; done < elems; ++i) {
    if (i >= view.size()) wrong(fmt::format("element {} of a part", first + done));
    const std::int64_t at = first + done - firsts[i];
    const std::int64_t n = std::min(elems - done, view[i].elems - at);
    f(i, at, n, done);
    done += n;
  }
}

}  // namespace

// A whole parameter is a slice of one row.
StoredLayout::Numbered StoredLayout::numbered(ModelView view) const {
  Numbered n{std::move(view), {}, {}};
  std::int64_t first = 0;
  for (ParamInWhole& p : n.view) {
    const std::int64_t all = params_[static_cast<std::size_t>(p.param)].elems;
    if (!p.slice.cuts()) p.slice = {0, all, all};
    n.firsts.push_back(first);
    first += p.elems;
  }
  return n;
}

StoredLayout::Piece StoredLayout::rectangle(const ParamInWhole& part, const WholeParam& whole) {
  const TensorSlice& s = part.slice;
  const auto require = [&](bool good) {
    if (!good) wrong(fmt::format("a piece of parameter {}", part.param));
  };
  require(s.width <= s.pitch && s.pitch <= whole.elems && whole.elems % s.pitch == 0);
  require(s.first < whole.elems && s.first % s.pitch + s.width <= s.pitch);
  require(part.elems % s.width == 0);
  const std::int64_t row = s.first / s.pitch, rows = part.elems / s.width;
  require(rows >= 1 && rows <= whole.elems / s.pitch - row);
  return {s, part.elems, row, s.first % s.pitch, s.width, s.pitch};
}

// Parts of several views may have the same piece.
void StoredLayout::add_pieces(std::vector<Numbered>& views) {
  for (Numbered& n : views)
    for (const ParamInWhole& p : n.view) {
      WholeParam& whole = params_[static_cast<std::size_t>(p.param)];
      const Piece piece = rectangle(p, whole);
      auto known = std::ranges::find(whole.pieces, p.slice, &Piece::slice);
      if (known == whole.pieces.end()) known = whole.pieces.insert(known, piece);
      if (known->elems != p.elems) wrong(fmt::format("a piece of parameter {}", p.param));
      n.pieces.push_back(static_cast<std::size_t>(known - whole.pieces.begin()));
    }
}

void StoredLayout::add_part(const CheckpointPart& part, int index, const Numbered& n) {
  std::int64_t at = 0;
  for (const ElementRange& r : part.map)
    for_each_param(n.firsts, n.view, r.first, r.elems,
                   [&](std::size_t i, std::int64_t first, std::int64_t elems, std::int64_t) {
                     WholeParam& whole = params_[static_cast<std::size_t>(n.view[i].param)];
                     Piece& piece = whole.pieces[n.pieces[i]];
                     // Whoever covers a piece twice is stopped before he lists it more often.
                     piece.covered += elems;
                     if (piece.covered > piece.elems)
                       wrong(fmt::format("element {}", whole.first_elem));
                     piece.entries.push_back({first, elems, index, at});
                     at += elems;
                   });
}

// Proves that the pieces are a parameter, and that the entries of each piece are that piece.
void StoredLayout::finish(WholeParam& param) {
  std::vector<Piece>& pieces = param.pieces;
  const auto fail = [&](std::int64_t elem) {
    wrong(fmt::format("element {}", param.first_elem + elem));
  };
  std::ranges::sort(pieces, {}, [](const Piece& p) { return std::pair(p.column, p.row); });
  std::int64_t column = 0;
  for (auto p = pieces.begin(); p != pieces.end();) {
    const std::int64_t width = p->width, pitch = pieces.front().pitch;
    std::int64_t row = 0;
    if (p->column != column) fail(column);
    for (; p != pieces.end() && p->column == column; ++p) {
      if (p->row != row || p->width != width || p->pitch != pitch) fail(row * pitch + column);
      row += p->elems / width;
    }
    if (row != param.elems / pitch) fail(row * pitch + column);
    column += width;
  }
  if (pieces.empty() || column != pieces.front().pitch) fail(column);
  for (Piece& piece : pieces) {
    std::vector<Entry>& entries = piece.entries;
    std::ranges::sort(entries, {}, &Entry::first);
    std::int64_t next = 0;
    const auto in_whole = [&] {
      return (piece.row + next / piece.width) * piece.pitch + piece.column + next % piece.width;
    };
    for (const Entry& e : entries) {
      if (e.first != next) fail(in_whole());
      next += e.elems;
    }
    if (next != piece.elems) fail(in_whole());
  }
}

StoredLayout::StoredLayout(const Manifest& manifest, ModelView view) {
  ModelView whole;
  std::int64_t first = 0;
  for (const StoredParam& p : manifest.params) {
    whole.push_back({std::ssize(whole), p.elems, {}});
    params_.push_back({first, p.elems});
    first += p.elems;
  }
  std::vector<Numbered> views;
  for (const ModelView& v : manifest.views) views.push_back(numbered(v));
  if (views.empty()) views.push_back(numbered(whole));
  add_pieces(views);
  for (std::size_t p = 0; p < manifest.parts.size(); ++p) {
    const CheckpointPart& part = manifest.parts[p];
    add_part(part, static_cast<int>(p), views[static_cast<std::size_t>(part.view)]);
  }
  for (WholeParam& p : params_) finish(p);
  reader_ = numbered(view.empty() ? std::move(whole) : std::move(view));
}

void StoredLayout::find(std::int64_t first, std::int64_t elems, const TakeRange& take) const {
  // Takes elements [at, at + n) of a piece, which are the reader's elements from `mine` on.
  const auto from_piece = [&](const Piece& piece, std::int64_t at, std::int64_t n,
                              std::int64_t mine) {
    auto e = std::prev(std::ranges::upper_bound(piece.entries, at, {}, &Entry::first));
    for (std::int64_t done = 0; done < n; ++e) {
      const std::int64_t skip = at + done - e->first;
      const std::int64_t some = std::min(n - done, e->elems - skip);
      take({mine + done, some, e->part, e->at + skip});
      done += some;
    }
  };
  // Takes elements [at, at + n) of a whole parameter. Each of its rows runs through the pieces that
  // lie side by side.
  const auto from_whole = [&](const WholeParam& param, std::int64_t at, std::int64_t n,
                              std::int64_t mine) {
    const std::vector<Piece>& pieces = param.pieces;
    const auto last_before = [&](std::int64_t column, std::int64_t row) {
      return std::prev(
          std::ranges::upper_bound(pieces, std::pair(column, row), {},
                                   [](const Piece& p) { return std::pair(p.column, p.row); }));
    };
    for (std::int64_t done = 0; done < n;) {
      const std::int64_t pitch = pieces.front().pitch;
      const std::int64_t row = (at + done) / pitch, column = (at + done) % pitch;
      const Piece& piece = *last_before(last_before(column, param.elems)->column, row);
      const std::int64_t in_row = column - piece.column;
      const std::int64_t from = (row - piece.row) * piece.width + in_row;
      const std::int64_t some =
          std::min(n - done, (piece.width == pitch ? piece.elems - from : piece.width - in_row));
      from_piece(piece, from, some, mine + done);
      done += some;
    }
  };
  for_each_param(reader_.firsts, reader_.view, first, elems,
                 [&](std::size_t i, std::int64_t at, std::int64_t n, std::int64_t done) {
                   const ParamInWhole& mine = reader_.view[i];
                   const WholeParam& param = params_[static_cast<std::size_t>(mine.param)];
                   for (const Piece& piece : param.pieces)
                     if (piece.slice == mine.slice && piece.elems == mine.elems)
                       return from_piece(piece, at, n, first + done);
                   const TensorSlice& s = mine.slice;
                   for (std::int64_t some = 0, had = 0; had < n; had += some) {
                     const std::int64_t in_row = (at + had) % s.width;
                     some = std::min(n - had, s.width - in_row);
                     from_whole(param, s.first + (at + had) / s.width * s.pitch + in_row, some,
                                first + done + had);
                   }
                 });
}

}  // namespace shardmark
