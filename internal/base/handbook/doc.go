// Package handbook is the documentation that is compiled into the program: the documents of docs/, an index
// of them by purpose, a full-text search, and each of them as HTML.
//
// docs/README.md is the index: its headings are the purposes, its list items the documents in their order. A
// folder has a README.md that lists the rest. Nothing is read before it is needed, because most runs of the
// program show no document: the index when a page is first asked for, and the words of the search with the
// first search. Documents are rendered on each call; callers that serve them keep the result.
//
// Imports: base/fault, base/pattern, docs, github.com/yuin/goldmark,
// github.com/yuin/goldmark/ast, github.com/yuin/goldmark/extension,
// github.com/yuin/goldmark/extension/ast, github.com/yuin/goldmark/parser,
// github.com/yuin/goldmark/renderer, github.com/yuin/goldmark/text,
// github.com/yuin/goldmark/util.
package handbook
