// Package local is what the engines for this machine, container and process, have in
// common: the directory of an instance, its files, its ports and its first process. It
// is not an engine itself.
//
//	ROOT/<id>/instance.json   metadata (Meta); written last, removed first
//	ROOT/<id>/control/        files of ingot-init: spec.json, state.json, records/
//	ROOT/<id>/home/           the instance's own files
//	CACHE/<key>/              unpacked archives that instances share, read-only
//
// A directory without instance.json was being created or removed when its server
// died: Recover removes it.
//
//	Create ──▶ incomplete ──Commit──▶ an instance ──Remove──▶ incomplete ──▶ gone
//	               └───────────────Recover, after a crash──────────────────▲
//
// The package must not import the engines that use it.
//
// Imports: base/background, base/fault, base/pattern, platform,
// platform/engine, platform/instance/homedir, platform/instance/initproto,
// platform/storage/archive, github.com/creack/pty, golang.org/x/sys/unix,
// golang.org/x/term.
package local
