// Package local is what engines share that run instances on this machine: the
// directory of an instance, its files, its ports and its first process.
//
//	ROOT/<id>/instance.json   what it is (Meta); written last, removed first
//	ROOT/<id>/control/        launch's files: spec.json, state.json, records/
//	ROOT/<id>/home/           the instance's own files
//	CACHE/<key>/              unpacked archives that instances share, read-only
//
// A directory without instance.json was being made or removed when its server
// died: Recover takes it away.
//
//	Create ──▶ half-made ──Commit──▶ an instance ──Remove──▶ half-made ──▶ gone
//	               └───────────────Recover, after a crash─────────────────▲
//
// It must not import the engines that use it.
//
// Imports: base/background, base/fault, platform/archive, platform/engine,
// platform/initproto, github.com/creack/pty, golang.org/x/sys/unix,
// golang.org/x/term.
package local
