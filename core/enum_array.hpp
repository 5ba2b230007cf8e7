// SPDX-License-Identifier: Apache-2.0
// Enums as indices of arrays and as rows of tables. An enum takes part if its values are 0, 1, 2, …
// and if `enum_size` is specialized beside it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace shardmark {

/// The number of values of the enum E.
template<class E>
inline constexpr std::size_t enum_size = 0;

/// An array with one element for each value of E. It is indexed by values of E, or by their numbers
/// as every array is.
template<class E, class T>
struct EnumArray : std::array<T, enum_size<E>> {
  static_assert(enum_size<E> > 0, "specialize enum_size beside the enum");
  using Elements = std::array<T, enum_size<E>>;
  using Elements::operator[];
  constexpr T& operator[](E value) { return (*this)[static_cast<std::size_t>(value)]; }
  constexpr const T& operator[](E value) const { return (*this)[static_cast<std::size_t>(value)]; }
};

/// The values of E in their order, to loop over.
template<class E>
inline constexpr EnumArray<E, E> all_values = [] {
  EnumArray<E, E> values{};
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<E>(i);
  return values;
}();

/// A table with one row for each value of E, in their order. A table that lacks a row does not
/// compile.
template<class E, class Row, class... Rows>
constexpr EnumArray<E, Row> enum_table(Row first, Rows... others) {
  static_assert(1 + sizeof...(others) == enum_size<E>, "the table needs one row for each value");
  return {{first, Row(others)...}};
}

/// The names of the values of E, in their order.
template<class E, class... Names>
constexpr EnumArray<E, std::string_view> enum_names(Names... names) {
  return enum_table<E>(std::string_view(names)...);
}

}  // namespace shardmark
