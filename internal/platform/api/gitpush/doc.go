// Package gitpush deploys apps with git push: it speaks git's smart HTTP protocol below
// /git/ORG/SPACE/APP, and does with the files of a pushed commit what clients do with a folder.
//
//	git ── info/refs ─────▶ what was deployed last, so that git sends only what is new
//	    ── receive-pack ──▶ gitpack: objects, files, all checked
//	                        manifest ─▶ package ─▶ build ─▶ rolling deployment
//	    ◀── the build's and the app's log, then "ok", or "ng" with the reason
//
// A push is refused if its build or its start fails; the version before keeps running. An
// accepted one is kept as a git repository (see Repositories), one per app, from which git can
// fetch and which makes the next push smaller. It is only a cache: without it the next push
// has everything.
//
//	api.go       routes, and whom they are for
//	protocol.go  lines and bands of git's protocol
//	receive.go   a push
//	upload.go    a clone or fetch
//	repository.go what is kept of a push
//	deploy.go    from a commit to a package and a droplet
//	launch.go    from a droplet to running instances
//	progress.go  what the user sees meanwhile
//	stream.go    git over connections that are not HTTP, such as ssh
//	slots.go     how many pushes there are at the same time
//
// It must not import implementations of the store or of engines.
//
// Imports: base/background, base/clock, base/fault, base/pattern, base/plural,
// base/pushignore, base/version, base/web, platform, platform/actions,
// platform/api/rest, platform/api/source, platform/logs, platform/manifest,
// platform/storage/gitpack.
package gitpush
