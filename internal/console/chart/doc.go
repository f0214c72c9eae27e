// Package chart draws lines over time as SVG, with axes, units, a legend, markers, limits, and a table for
// screen readers.
//
// Pictures have classes and no styles, because the console's policy forbids inline styles. All
// texts are escaped.
//
// Imports: base/digits.
package chart
